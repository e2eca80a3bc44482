import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Runs probes until stdin ends: one line names a probe's class and its arguments, tab-separated, and is answered by
 * the probe's facts, one JSON line each, and an empty line.
 */
public final class Probes {
    private Probes() {}

    /** What a probe's class has. */
    @FunctionalInterface
    public interface Probe {
        void run(Facts facts, String[] arguments) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            Facts facts = new Facts(out);
            try {
                Probe probe = (Probe) Class.forName(words[0]).getDeclaredConstructor().newInstance();
                probe.run(facts, Arrays.copyOfRange(words, 1, words.length));
            } catch (Throwable failure) {
                facts.failure("probe", failure);
                failure.printStackTrace();
            }
            out.println();
            out.flush();
        }
        System.exit(0);  // Threads of connections that were left open would go on.
    }
}
