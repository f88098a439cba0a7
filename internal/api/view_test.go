package api

import "testing"

// TestShownBody checks how much of a body is shown, in the form that the whole has.
func TestShownBody(t *testing.T) {
	tests := map[string]struct {
		body           string
		limit          bodyLimit
		text, inBase64 string
	}{
		"all of a text":          {"häuser", wholeBody, "häuser", ""},
		"as much as there is":    {"häuser", 7, "häuser", ""},
		"a part of a text":       {"häuser", 3, "hä", ""},
		"no half of a character": {"häuser", 2, "h", ""},
		"nothing but a half":     {"ä", 1, "", ""},
		"nothing of a text":      {"häuser", 0, "", ""},
		"all of what is no text": {"\xff\x00\x01\x02", wholeBody, "", "/wABAg=="},
		"a part of it":           {"\xff\x00\x01\x02", 1, "", "/w=="},
		"a part that is text":    {"a\xff", 1, "", "YQ=="},
		"nothing of it":          {"\xff", 0, "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text, inBase64 := test.limit.textOrBase64([]byte(test.body))
			if text != test.text || inBase64 != test.inBase64 {
				t.Errorf("%q and %q, want %q and %q", text, inBase64, test.text, test.inBase64)
			}
		})
	}
}
