import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;

/**
 * A worker in Java without packages. Each item is the path of a file; the result is a line with its SHA-256 and the
 * item's id on the standard output.
 */
final class Worker {
    private static volatile boolean stopping;

    private static String checksum(Path path) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        byte[] part = new byte[1 << 16];
        try (var in = Files.newInputStream(path)) {
            for (int read = in.read(part); read >= 0; read = in.read(part)) digest.update(part, 0, read);
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    private static void handle(String token, String id, byte[] payload) throws InterruptedException {
        String tokens = "{\"tokens\": [" + Sidecar.quoted(token) + "]";
        try {
            System.out.println(checksum(Path.of(new String(payload))) + " " + id);
        } catch (Exception error) {
            Sidecar.ask("/v1/fail", tokens + ", \"error\": " + Sidecar.quoted(error.toString()) + "}");
            return;
        }
        Sidecar.ask("/v1/done", tokens + "}");
    }

    public static void main(String[] args) throws InterruptedException {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true; // after SIGTERM the item in progress is finished first
            try {
                main.join();
            } catch (InterruptedException error) {
                return;
            }
        }));
        String session = Sidecar.openSession();
        while (!stopping) {
            String claim = "{\"wait\": 5, \"encoding\": \"base64\", \"session\": " + Sidecar.quoted(session) + "}";
            Sidecar.Answer answer = Sidecar.ask("/v1/claim", claim);
            if (answer.status() == 409) { // the sidecar was restarted
                session = Sidecar.openSession();
                continue;
            }
            if (answer.status() != 200) throw new IllegalStateException(answer.body());
            List<String> tokens = Sidecar.values(answer.body(), "token");
            List<String> ids = Sidecar.values(answer.body(), "id");
            List<String> payloads = Sidecar.values(answer.body(), "payload_base64");
            for (int at = 0; at < tokens.size(); at++)
                handle(tokens.get(at), ids.get(at), Base64.getDecoder().decode(payloads.get(at)));
            if (answer.body().contains("\"draining\":true")) return;
        }
    }
}
