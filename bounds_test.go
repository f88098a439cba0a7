package posthaste_test

import (
	"strings"
	"testing"

	"posthaste"
)

// TestBounds has texts of the most bytes that are accepted, and of one more (contract,
// decision 35).
func TestBounds(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, test := range []struct {
		name  string
		check func(what, text string) error
		most  int
		text  func(size int) string
		what  string // that the sentence names
	}{
		{"user", posthaste.CheckUserID, 255, x, "it"},
		{"name", posthaste.CheckName, 256, x, "it"},
		{"new name", posthaste.CheckNewName, 256, x, "it"},
		{"flow-control key", posthaste.CheckFlowKey, 256, x, "it"},
		{"flow-control key of two-byte letters", posthaste.CheckFlowKey, 256,
			func(size int) string { return strings.Repeat("é", 127) + x(size-254) }, "it"},
		{"deduplication id", posthaste.CheckDeduplicationID, 1024, x, "it"},
		{"host", checkURL, 253, func(size int) string { return "http://" + x(size) + "/" }, "the host of it"},
		{"host with a port", checkURL, 253, func(size int) string { return "http://user:pw@" + x(size) + ":65535" }, "the host of it"},
		{"URL", checkURL, 16384, func(size int) string { return "http://host/" + x(size-len("http://host/")) }, "it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.check("it", test.text(test.most)); err != nil {
				t.Errorf("the most that is accepted is refused: %v", err)
			}
			err := test.check("it", test.text(test.most+1))
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid || !strings.HasPrefix(err.Error(), test.what+` "`) {
				t.Errorf("a byte more: %v", err)
			}
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("a sentence of %d bytes", len(err.Error()))
			}
		})
	}
	if err := posthaste.CheckFlowKey("it", ""); posthaste.ErrorCode(err) != posthaste.CodeInvalid {
		t.Errorf("an empty flow-control key: %v", err)
	}
	if err := posthaste.CheckDeduplicationID("it", ""); posthaste.ErrorCode(err) != posthaste.CodeInvalid {
		t.Errorf("an empty deduplication id: %v", err)
	}
}

func checkURL(what, text string) error {
	_, err := posthaste.ParseURL(what, text, text)
	return err
}
