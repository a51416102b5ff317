# Pushes jobs with Sidekiq's own client. Usage: ruby sidekiq_jobs.rb HOST:PORT
require "json"
require "sidekiq"
require "sidekiq/api"
require "sidekiq/job_retry"

Sidekiq.logger.level = Logger::FATAL
Sidekiq.configure_client { |config| config.redis = {url: "redis://#{ARGV[0]}/0"} }

class SendMail
  include Sidekiq::Worker
  sidekiq_options queue: "mails", retry: 5
end

class Report
  include Sidekiq::Worker
  sidekiq_options queue: "reports"
end

SendMail.perform_async("ann@example.com", {"subject" => "Grüße"})
SendMail.perform_async("bob@example.com", {"subject" => "one"})
SendMail.perform_async("bob@example.com", {"subject" => "one"})
SendMail.perform_at(Time.at(4_000_000_000), "later@example.com", {})
Report.perform_async(1)
Report.perform_at(Time.at(4_000_000_001), 2)

# A job that fails goes to the retry set, as in a Sidekiq process.
failing = Sidekiq::Queue.new("mails").first
message = failing.value
failing.delete
begin
  Sidekiq::JobRetry.new(Sidekiq.options).local(SendMail, message, "mails") { raise ArgumentError, "no such host" }
rescue Sidekiq::JobRetry::Handled, Sidekiq::JobRetry::Skip
end

puts JSON.generate("ruby" => RUBY_VERSION, "sidekiq" => Sidekiq::VERSION)
