import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

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

    private static void handle(Map<?, ?> claim) throws InterruptedException {
        String tokens = "{\"tokens\": [" + Sidecar.quoted((String) claim.get("token")) + "]";
        byte[] payload = Base64.getDecoder().decode((String) claim.get("payload_base64"));
        try {
            System.out.println(checksum(Path.of(new String(payload, StandardCharsets.UTF_8))) + " " + claim.get("id"));
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
            String request = "{\"wait\": 5, \"encoding\": \"base64\", \"session\": " + Sidecar.quoted(session) + "}";
            Sidecar.Answer answer = Sidecar.ask("/v1/claim", request);
            if (answer.status() == 409) { // the sidecar was restarted
                session = Sidecar.openSession();
                continue;
            }
            if (answer.status() != 200) throw new IllegalStateException(answer.body());
            Map<?, ?> json = answer.json();
            for (Object claim : (List<?>) json.get("claims")) handle((Map<?, ?>) claim);
            if (json.get("draining").equals(true)) return;
        }
    }
}
