# A producer in Ruby without gems: enqueues each line of the standard input.

require "digest"
require "json"
require "net/http"
require "socket"

Encoding.default_external = Encoding::UTF_8 # also where the locale has another one

BATCH = 100

def enqueue(lines)
  # An id makes it harmless to enqueue the same item again.
  items = lines.map { |line| { text: line, id: Digest::SHA256.hexdigest(line) } }
  UNIXSocket.open(ENV.fetch("CLAIMQ_SOCKET")) do |unix|
    socket = Net::BufferedIO.new(unix)
    request = Net::HTTP::Post.new("/v1/enqueue", "Host" => "claimq", "Content-Type" => "application/json")
    request.body = JSON.generate(items: items)
    request.exec(socket, "1.1", "/v1/enqueue")
    response = Net::HTTPResponse.read_new(socket)
    response.reading_body(socket, true) { response.read_body }
    abort response.body unless response.code == "200"
  end
end

$stdin.each_line(chomp: true).each_slice(BATCH) { |lines| enqueue(lines) }
