# Enqueues items with Queue::Q::ReliableFIFO. Usage: perl fifo_jobs.pl HOST:PORT
use strict;
use warnings;
use utf8;
use JSON::XS;
use Queue::Q::ReliableFIFO::Redis;

my ($host, $port) = split /:/, $ARGV[0];
my $queue = Queue::Q::ReliableFIFO::Redis->new(server => $host, port => $port, queue_name => "mails", requeue_limit => 1);
$queue->enqueue_item("first", { to => "ann\@example.com", subject => "Grüße" });
$queue->enqueue_item([1, 2, 3]);
$queue->enqueue_item(17, "twice", "twice");
my $failing = $queue->claim_item();
$queue->requeue_busy($failing);    # back in main with a requeue count
my $busy = $queue->claim_item();

require Redis;
require Queue::Q;
print encode_json({ perl => "$^V", "Queue::Q" => "$Queue::Q::VERSION", Redis => "$Redis::VERSION" }), "\n";
