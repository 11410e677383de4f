import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;

/** One member of a benchmark on JGroups 5, the counterpart of seat.py and witness.py: floods, delivers everything, verifies, reports. */
public class JGroupsMember implements Receiver {
    final int me, members, size;
    final double seconds, warmup;
    final long[] next;
    final MessageDigest digest = MessageDigest.getInstance("SHA-256");
    final BufferedReader parent = new BufferedReader(new InputStreamReader(System.in));
    int sender = -1;
    long first, last = -1, faults;
    volatile long delivered, lastAt = System.nanoTime();

    JGroupsMember(String[] args) throws Exception {
        me = Integer.parseInt(args[0]);
        members = Integer.parseInt(args[1]);
        size = Integer.parseInt(args[2]);
        seconds = Double.parseDouble(args[3]);
        warmup = Double.parseDouble(args[4]);
        next = new long[members];
        Arrays.fill(next, 1);
    }

    /** Threads of several senders deliver at once: one at a time from here on. */
    @Override
    public synchronized void receive(Message message) {
        ByteBuffer data = ByteBuffer.wrap(message.getArray(), message.getOffset(), message.getLength()).order(ByteOrder.LITTLE_ENDIAN);
        int from = data.getShort();
        long number = data.getInt() & 0xffffffffL;
        if (number != next[from]) faults++;
        next[from] = number + 1;
        if (from == sender && number == last + 1) {
            last = number;
        } else {
            closeRun();
            sender = from;
            first = last = number;
        }
        delivered++;
        lastAt = System.nanoTime();
    }

    void closeRun() {
        if (last >= first && sender >= 0) digest.update(ByteBuffer.allocate(20).putInt(sender).putLong(first).putLong(last).array());
    }

    void run(String config) throws Exception {
        JChannel channel = new JChannel(config);
        channel.setReceiver(this);
        if (me > 0) meet("0");
        channel.connect("bench");
        if (me == 0) meet("0");
        for (int tries = 0; channel.getView().size() < members; tries++) {
            if (tries > 600) throw new IllegalStateException("only " + channel.getView().size() + " members met within 30 s");
            Thread.sleep(50);
        }
        meet("0");
        long began = System.nanoTime(), measured = began + (long) (warmup * 1e9), ends = measured + (long) (seconds * 1e9);
        long sent = 0, before = 0, cpuBefore = cpu(), from = began;
        boolean warm = false;
        while (System.nanoTime() < ends) {
            if (!warm && System.nanoTime() >= measured) {
                warm = true;
                before = delivered;
                cpuBefore = cpu();
                from = System.nanoTime();
            }
            byte[] payload = new byte[size];
            ByteBuffer.wrap(payload).order(ByteOrder.LITTLE_ENDIAN).putShort((short) me).putInt((int) ++sent);
            channel.send(new BytesMessage(null, payload));
        }
        long expected = 0;
        for (String count : meet(Long.toString(sent)).replaceAll("[\\[\\] ]", "").split(",")) expected += Long.parseLong(count);
        long seen = delivered, stalled = System.nanoTime() + 10_000_000_000L;
        while (delivered < expected && System.nanoTime() < stalled) {
            Thread.sleep(10);
            if (delivered != seen) {
                seen = delivered;
                stalled = System.nanoTime() + 10_000_000_000L;
            }
        }
        String tally = tally(sent, before, from, cpuBefore);
        meet("0");
        tell("{\"tally\":" + tally + "}");
    }

    synchronized String tally(long sent, long before, long from, long cpuBefore) throws Exception {
        closeRun();
        StringBuilder hash = new StringBuilder(), counts = new StringBuilder();
        for (byte part : digest.digest()) hash.append(String.format("%02x", part));
        for (long following : next) counts.append(counts.length() == 0 ? "" : ",").append(following - 1);
        String memory = Files.readString(Path.of("/proc/self/status")).split("VmHWM:")[1].trim().split("\\s+")[0];
        String wrong = faults == 0 ? "" : "\"" + faults + " messages came out of their sender's order\"";
        return String.format(
            java.util.Locale.ROOT,
            "{\"member\":%d,\"sent\":%d,\"delivered\":%d,\"seconds\":%f,\"deliveries\":%d,\"cpu_s\":%f,\"server_cpu_s\":0,"
                + "\"rss_mb\":%f,\"digest\":\"%s\",\"count_by_sender\":[%s],\"complaints\":[%s],\"delays_us\":[]}",
            me, sent, delivered, (lastAt - from) / 1e9, delivered - before, (cpu() - cpuBefore) / 1e9,
            Double.parseDouble(memory) / 1024, hash, counts, wrong);
    }

    static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    String meet(String value) throws Exception {
        tell("{\"meet\":" + value + "}");
        String answer = parent.readLine();
        if (answer == null) Runtime.getRuntime().halt(3);
        return answer;
    }

    static void tell(String line) {
        System.out.println("antiphon-bench " + line);
        System.out.flush();
    }

    public static void main(String[] args) throws Exception {
        new JGroupsMember(args).run(args[5]);
        Runtime.getRuntime().halt(0);
    }
}
