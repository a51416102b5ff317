# Claims the items that `claimq export` wrote, with Queue::Q::ReliableFIFO, and prints them. Usage: perl fifo_read.pl HOST:PORT
use strict;
use warnings;
use JSON::XS;
use Queue::Q::ReliableFIFO::Redis;

my ($host, $port) = split /:/, $ARGV[0];
my $queue = Queue::Q::ReliableFIFO::Redis->new(server => $host, port => $port, queue_name => "mails");
my $json = JSON::XS->new->utf8->allow_nonref;
while (my $item = $queue->claim_item_nonblocking) {
    print "claimed ", $json->encode($item->data), ", queued at ", $item->time_queued, "\n";
    $queue->mark_item_as_done($item) == 1 or die "not marked as done";
}
