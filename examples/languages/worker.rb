# A worker in Ruby without gems. Each item is the path of a file; the result is a line with its SHA-256 and the item's
# id on the standard output.

require "digest"
require "json"
require "net/http"
require "socket"

Encoding.default_external = Encoding::UTF_8 # also where the locale has another one

$stdout.sync = true
stopping = false
%w[TERM INT].each { |signal| trap(signal) { stopping = true } }

# Sends a request to the sidecar on a connection of its own and passes the response to the block.
def post(path, body, &block)
  UNIXSocket.open(ENV.fetch("CLAIMQ_SOCKET")) do |unix|
    socket = Net::BufferedIO.new(unix, read_timeout: 60)
    request = Net::HTTP::Post.new(path, "Host" => "claimq", "Content-Type" => "application/json")
    request.body = JSON.generate(body)
    request.exec(socket, "1.1", path)
    response = Net::HTTPResponse.read_new(socket)
    result = nil
    response.reading_body(socket, true) { result = block.call(response) }
    result
  end
end

# Sends a request until it is answered with 200 or 4xx, and returns the status and the answer. To repeat one is harmless.
def ask(path, body)
  loop do
    begin
      status, answer = post(path, body) { |response| [response.code.to_i, JSON.parse(response.read_body)] }
      return status, answer if status < 500 && status != 429
      warn answer["detail"]
    rescue SystemCallError, IOError, Timeout::Error => error
      warn error.message
    end
    sleep 0.5
  end
end

# Opens a session and keeps it open in a thread: the sidecar renews what is claimed in it, and gives it back when this
# process dies.
def open_session
  opened = Queue.new
  Thread.new do
    post("/v1/session", {}) do |response|
      first = nil
      response.read_body { |line| opened << (first = JSON.parse(line)["session"]) unless first }
    end
  rescue SystemCallError, IOError, Timeout::Error => error
    warn error.message
  ensure
    opened << nil
  end
  opened.pop || (sleep(0.5) and open_session)
end

def handle(item)
  raise "the payload is not text" unless item["text"]
  puts "#{Digest::SHA256.file(item["text"]).hexdigest} #{item["id"]}"
rescue StandardError => error
  ask("/v1/fail", { tokens: [item["token"]], error: error.message })
else
  ask("/v1/done", { tokens: [item["token"]] })
end

session = open_session
until stopping
  status, answer = ask("/v1/claim", { session: session, wait: 5, encoding: "text" })
  if status == 409 # the sidecar was restarted
    session = open_session
  elsif status != 200
    abort answer["detail"]
  elsif answer["draining"]
    break
  else
    answer["claims"].each { |item| handle(item) }
  end
end
