// Receives callbacks: WEBHOOK_SECRET=whsec_… PORT=9000 java Receiver.java

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import java.util.concurrent.Executors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Receiver {
    /** Whether a request was signed with the secret, within five minutes of now. */
    static boolean isOurs(String secret, Headers headers, byte[] body, Instant now) throws GeneralSecurityException {
        String id = headers.getFirst("webhook-id"), at = headers.getFirst("webhook-timestamp"), given = headers.getFirst("webhook-signature");
        if (id == null || at == null || given == null || !at.matches("\\d{1,18}")) {
            return false; // it is not signed
        }
        if (Math.abs(now.getEpochSecond() - Long.parseLong(at)) > 300) {
            return false; // somebody sends an old one again
        }
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.replaceFirst("^whsec_", "")), "HmacSHA256"));
        mac.update((id + "." + at + ".").getBytes(StandardCharsets.UTF_8));
        byte[] want = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(StandardCharsets.UTF_8);
        boolean ours = false;
        for (String signature : given.split(" ")) { // two while a secret is being replaced
            ours |= MessageDigest.isEqual(want, signature.getBytes(StandardCharsets.UTF_8));
        }
        return ours;
    }

    public static void main(String[] args) throws Exception {
        String secret = System.getenv("WEBHOOK_SECRET");
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", request -> {
            try (request) {
                byte[] body = request.getRequestBody().readAllBytes();
                boolean ours = isOurs(secret, request.getRequestHeaders(), body, Instant.now());
                if (ours) {
                    // The work goes here. A callback may come twice: keep its webhook-id in the transaction that does the work.
                }
                request.sendResponseHeaders(ours ? 204 : 401, -1);
            } catch (GeneralSecurityException e) {
                throw new IllegalStateException(e);
            }
        });
        server.start();
    }
}
