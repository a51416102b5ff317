import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Reads one JSON document: an object as a Map, an array as a List, a text as a String, a number as a Double. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object read(String text) {
        return new Json(text).value();
    }

    private Object value() {
        if (skip('{')) return object();
        if (skip('[')) return array();
        return skip('"') ? string() : word();
    }

    /** Moves past blanks, and past this character if it is the next one. */
    private boolean skip(char wanted) {
        while (Character.isWhitespace(text.charAt(at))) at++;
        boolean found = text.charAt(at) == wanted;
        if (found) at++;
        return found;
    }

    private Map<String, Object> object() {
        Map<String, Object> fields = new HashMap<>();
        for (; !skip('}'); skip(',')) {
            skip('"');
            String name = string();
            skip(':');
            fields.put(name, value());
        }
        return fields;
    }

    private List<Object> array() {
        List<Object> values = new ArrayList<>();
        for (; !skip(']'); skip(',')) values.add(value());
        return values;
    }

    private String string() {
        StringBuilder read = new StringBuilder();
        for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) read.append(c == '\\' ? escaped() : c);
        return read.toString();
    }

    private char escaped() {
        char c = text.charAt(at++);
        if (c != 'u') return "\"\\/\b\f\n\r\t".charAt("\"\\/bfnrt".indexOf(c));
        at += 4;
        return (char) Integer.parseInt(text.substring(at - 4, at), 16);
    }

    private Object word() {
        int start = at;
        while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) at++;
        return switch (text.substring(start, at)) {
            case "true" -> true;
            case "false" -> false;
            case "null" -> null;
            default -> Double.valueOf(text.substring(start, at));
        };
    }
}
