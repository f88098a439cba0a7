package posthaste_test

import (
	"testing"

	"posthaste"
)

func TestParseTraceContext(t *testing.T) {
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	tests := map[string]struct {
		text string
		want bool
	}{
		"sampled":            {"00-" + trace + "-" + span + "-01", true},
		"not sampled":        {"00-" + trace + "-" + span + "-00", true},
		"nothing":            {"", false},
		"another version":    {"01-" + trace + "-" + span + "-01", false},
		"more than is known": {"00-" + trace + "-" + span + "-01-x", false},
		"no trace":           {"00-00000000000000000000000000000000-" + span + "-01", false},
		"no span":            {"00-" + trace + "-0000000000000000-01", false},
		"capital letters":    {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" + span + "-01", false},
		"too short":          {"00-" + trace[2:] + "-" + span + "-01", false},
		"no digits":          {"00-" + trace + "-" + span + "-xx", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := posthaste.ParseTraceContext(test.text)
			if ok != test.want || ok && string(got) != test.text {
				t.Errorf("ParseTraceContext(%q) = %q, %v, want %v", test.text, got, ok, test.want)
			}
		})
	}
}
