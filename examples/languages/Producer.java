import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/** A producer in Java without packages: enqueues each line of the standard input. */
final class Producer {
    private static final int BATCH = 100;

    private static void enqueue(List<String> items) throws InterruptedException {
        Sidecar.Answer answer = Sidecar.ask("/v1/enqueue", "{\"items\": [" + String.join(", ", items) + "]}");
        if (answer.status() != 200) throw new IllegalStateException(answer.body());
        items.clear();
    }

    public static void main(String[] args) throws Exception {
        List<String> items = new ArrayList<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            byte[] bytes = line.getBytes(StandardCharsets.UTF_8);
            String id = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
            // An id makes it harmless to enqueue the same item again.
            items.add("{\"text\": " + Sidecar.quoted(line) + ", \"id\": \"" + id + "\"}");
            if (items.size() == BATCH) enqueue(items);
        }
        if (!items.isEmpty()) enqueue(items);
    }
}
