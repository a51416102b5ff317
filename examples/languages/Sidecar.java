import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/**
 * Requests to the sidecar with nothing but the JDK, whose HTTP client cannot use a Unix socket.
 * With packages, a program would use an HTTP client and a JSON library instead of this class and Json.
 */
final class Sidecar {
    record Answer(int status, String body) {
        Map<?, ?> json() {
            return (Map<?, ?>) Json.read(body);
        }
    }

    /** Sends a request on a connection of its own, which stays open. Returns what the sidecar sends back. */
    private static InputStream send(String path, String json) throws IOException {
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        channel.connect(UnixDomainSocketAddress.of(System.getenv("CLAIMQ_SOCKET")));
        byte[] body = json.getBytes(StandardCharsets.UTF_8);
        String head = "POST " + path + " HTTP/1.1\r\nHost: claimq\r\nContent-Length: " + body.length + "\r\n\r\n";
        for (byte[] part : List.of(head.getBytes(StandardCharsets.US_ASCII), body)) {
            ByteBuffer buffer = ByteBuffer.wrap(part);
            while (buffer.hasRemaining()) channel.write(buffer);
        }
        return new BufferedInputStream(Channels.newInputStream(channel));
    }

    private static String line(InputStream in) throws IOException {
        StringBuilder read = new StringBuilder();
        for (int next = in.read(); next != '\n'; next = in.read()) {
            if (next < 0) throw new IOException("the sidecar has closed the connection");
            if (next != '\r') read.append((char) next);
        }
        return read.toString();
    }

    /** The status and the length of the body; a length of -1 for a body in chunks. */
    private static int[] head(InputStream in) throws IOException {
        int status = Integer.parseInt(line(in).split(" ")[1]), length = -1;
        for (String field = line(in); !field.isEmpty(); field = line(in))
            if (field.toLowerCase().startsWith("content-length:")) length = Integer.parseInt(field.substring(15).strip());
        return new int[] {status, length};
    }

    /** Sends a request until it is answered with 200 or 4xx. To repeat one is harmless. */
    static Answer ask(String path, String json) throws InterruptedException {
        while (true) {
            try (InputStream in = send(path, json)) {
                int[] head = head(in);
                String body = new String(in.readNBytes(head[1]), StandardCharsets.UTF_8);
                if (head[0] < 500 && head[0] != 429) return new Answer(head[0], body);
                System.err.println(body);
            } catch (IOException error) {
                System.err.println(error.getMessage());
            }
            Thread.sleep(500);
        }
    }

    /**
     * Opens a session and keeps it open in a thread: the sidecar renews what is claimed in it, and gives it back when
     * this process dies.
     */
    static String openSession() throws InterruptedException {
        while (true) {
            try {
                InputStream in = send("/v1/session", "{}");
                if (head(in)[0] == 200) {
                    line(in); // the size of the first chunk
                    String id = (String) ((Map<?, ?>) Json.read(line(in))).get("session");
                    Thread reader = new Thread(() -> readToTheEnd(in));
                    reader.setDaemon(true);
                    reader.start();
                    return id;
                }
                in.close();
            } catch (IOException error) {
                System.err.println(error.getMessage());
            }
            Thread.sleep(500);
        }
    }

    private static void readToTheEnd(InputStream in) {
        try (in) {
            while (in.read() >= 0) {}
        } catch (IOException error) {
            System.err.println(error.getMessage());
        }
    }

    /** A text as JSON. */
    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c < 0x20 || c == '"' || c == '\\') out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }
}
