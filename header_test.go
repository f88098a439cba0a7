package posthaste_test

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"posthaste"
)

// Contract, decision 29.
func TestHeaderText(t *testing.T) {
	tests := map[string]struct {
		text, wire, inJSON string
	}{
		"empty":                   {"", "", ""},
		"ASCII":                   {"Jose", "Jose", "Jose"},
		"up to U+00FF":            {"José ÿ", "Jos\xe9 \xff", "José ÿ"},
		"a control of Latin-1":    {"\u0085", "\x85", "\u0085"},
		"above U+00FF":            {"患者", "患者", "æ\u0082£è\u0080\u0085"},
		"above, beside Latin-1":   {"é Ā", "é Ā", "Ã© Ä\u0080"},
		"above the first plane":   {"bot 🚀", "bot 🚀", "bot ð\u009f\u009a\u0080"},
		"no line break in bytes":  {"\u010d\u010a", "\u010d\u010a", "Ä\u008dÄ\u008a"},
		"UTF-8 read as one byte":  {"Ã©", "\xc3\xa9", "Ã©"},
		"a part of a pair, alone": {"\ufffd", "\ufffd", "ï¿½"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := posthaste.EncodeHeaderText(test.text); got != test.wire {
				t.Errorf("on the wire: %q, want %q", got, test.wire)
			}
			shown := posthaste.HeaderInJSON(http.Header{"X-Name": {test.wire, "plain"}, "Other": nil})
			if diff := cmp.Diff(http.Header{"X-Name": {test.inJSON, "plain"}, "Other": {}}, shown, cmpEmpty); diff != "" {
				t.Errorf("in JSON (-want +got):\n%s", diff)
			}
			if got := posthaste.HeaderFromJSON(shown); got.Get("X-Name") != test.wire {
				t.Errorf("back from JSON: %q, want %q", got.Get("X-Name"), test.wire)
			}
		})
	}
}

var cmpEmpty = cmp.Transformer("", func(values []string) string { return strings.Join(values, "\x00") })

func TestDecodeHeaderText(t *testing.T) {
	for name, test := range map[string]struct{ value, want string }{
		"ASCII":                      {"Jose", "Jose"},
		"a byte for each character":  {"Jos\xe9", "José"},
		"UTF-8":                      {"Jos\xc3\xa9", "José"},
		"UTF-8 above U+00FF":         {"患者", "患者"},
		"UTF-8 and something broken": {"\xc3\xa9\xff", "Ã©ÿ"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := posthaste.DecodeHeaderText(test.value); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestHeaderInJSONIsShared checks that the usual header costs nothing.
func TestHeaderInJSONIsShared(t *testing.T) {
	header := http.Header{"X-Name": {"plain"}}
	posthaste.HeaderInJSON(header).Set("X-More", "yes")
	if header.Get("X-More") != "yes" {
		t.Error("a header of ASCII was copied")
	}
	if posthaste.HeaderInJSON(nil) != nil {
		t.Error("no header has become one")
	}
}

// FuzzHeaderText sends a text to and fro as SDKs do that repeat what they received: it is the
// same bytes from the first delivery on.
func FuzzHeaderText(f *testing.F) {
	for _, seed := range []string{"", "José", "患者", "Ã©", "\xff", "a\u0085"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		wire := posthaste.EncodeHeaderText(text)
		shown := posthaste.HeaderInJSON(http.Header{"A": {wire}}).Get("A")
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(r rune) bool { return r > 0xff }) {
			t.Fatalf("%q is shown as %q, which no Headers object holds", text, shown)
		}
		if again := posthaste.EncodeHeaderText(shown); again != wire {
			t.Fatalf("%q goes out as %q and, repeated, as %q", text, wire, again)
		}
		if decoded := posthaste.DecodeHeaderText(wire); !utf8.ValidString(decoded) {
			t.Fatalf("%q is read as %q", text, decoded)
		}
	})
}
