package record

import (
	"encoding/hex"
	"strings"
	"testing"

	"posthaste"
)

func errorOf[T any](_ T, err error) error { return err }

var decoders = map[string]func([]byte) error{
	"message":          func(data []byte) error { return errorOf(DecodeMessage(posthaste.MessageID{1}, "u", data)) },
	"event":            func(data []byte) error { return errorOf(DecodeEvent(data)) },
	"response":         func(data []byte) error { return errorOf(DecodeResponse(data)) },
	"dead letter":      func(data []byte) error { return errorOf(DecodeDeadLetter(1, "u", data)) },
	"queue":            func(data []byte) error { return errorOf(DecodeQueue("q", data)) },
	"URL group":        func(data []byte) error { return errorOf(DecodeURLGroup("g", data)) },
	"schedule":         func(data []byte) error { return errorOf(DecodeSchedule("u", "s", data)) },
	"flow-control key": func(data []byte) error { return errorOf(DecodeFlowKey("k", data)) },
	"run":              func(data []byte) error { return errorOf(DecodeRun("u", data)) },
	"run progress":     func(data []byte) error { return errorOf(DecodeRunProgress(data)) },
	"run entry":        func(data []byte) error { return errorOf(DecodeRunEntry(0, data)) },
	"waiter":           func(data []byte) error { return errorOf(DecodeWaiter(1, data)) },
	"bulk action":      func(data []byte) error { return errorOf(DecodeAction("u", "a", data)) },
}

func TestEveryDecoderRefuses(t *testing.T) {
	for name, decode := range decoders {
		for what, data := range map[string]string{
			"nothing":            "",
			"another version":    "\x02\xa0",
			"null":               "\x01\xf6",
			"half a record":      "\x01\xa1\x01",
			"more than a record": "\x01\xa0\xa0",
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				if err := decode([]byte(data)); err == nil {
					t.Errorf("%x was taken for a record", data)
				}
			})
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, test := range []struct {
		name, decoder, hex, want string
	}{
		{"nothing", "message", "", "no data"},
		{"a version alone", "event", "01", "no data"},
		{"a later version", "response", "02a0", "version 2"},
		{"version zero", "message", "00a0", "version 0"},
		{"null", "message", "01f6", "not a map"},
		{"a list", "response", "0180", "not a map"},
		{"a text", "event", "0161ff", "not a map"},
		{"bytes behind the record", "response", "01a000", "extraneous"},
		{"a record cut short", "message", "01a1016568", "unexpected EOF"},
		{"a key twice", "event", "01a201010102", "duplicate"},
		{"a map of open length", "event", "01bf0101ff", "indefinite"},
		{"a tag", "event", "01a101c101", "tag"},
		{"a field of another type", "message", "01a10101", "cannot unmarshal"},
		{"a number too large for its field", "event", "01a101190100", "cannot unmarshal"},
		{"no state", "event", "01a0", "state 0 is unknown"},
		{"an unknown state", "event", "01a1010d", "state 13 is unknown"},
		{"a header name without value", "response", "01a102816141", "ascending names"},
		{"header names out of order", "response", "01a10284614261316141" + "6132", "ascending names"},
		{"a bad header in a callback", "message", "01a10aa10ba103816141", "ascending names"},
		{"a list longer than the data", "response", "01a1029b00000000ffffffff", "exceed"},
		{"a short source", "message", "01a10b41ff", "message id"},
		{"a long source", "message", "01a10b51" + strings.Repeat("ff", 17), "message id"},
		{"a dead letter without message id", "dead letter", "01a102" + "4201a0", "message id"},
		{"a dead letter without message", "dead letter", "01a10150" + strings.Repeat("ff", 16), "no data"},
		{"a dead letter with a bad response", "dead letter", "01a30150" + strings.Repeat("ff", 16) + "024201a0" + "044100", "no data"},
		{"an endpoint without URL", "URL group", "01a101816141", "pairs"},
		{"a bad group header", "URL group", "01a102816141", "ascending names"},
		{"a short message id of a schedule", "schedule", "01a10b8141ff", "message id"},
		{"a bad schedule header", "schedule", "01a10da102816141", "ascending names"},
		{"a failure without error", "bulk action", "01a107816141", "pairs"},
		{"a short message id of a filter", "bulk action", "01a1108141ff", "message id"},
		{"a bad header of overrides", "bulk action", "01a103a103a102816141", "ascending names"},
		{"a bad filter to show", "bulk action", "01a10f816141", "ascending names"},
		{"a short first message id of a run", "run", "01a10941ff", "message id"},
		{"a bad header of a run", "run", "01a105a102816141", "ascending names"},
		{"a short id of what failed a run", "run progress", "01a10641ff", "message id"},
		{"a short id of a failure callback", "run progress", "01a108a10141ff", "message id"},
		{"a bad answer to a failure callback", "run progress", "01a108a1054100", "no data"},
		{"a long message id of an entry", "run entry", "01a10151" + strings.Repeat("ff", 17), "message id"},
		{"a short message id of a waiter", "waiter", "01a11041ff", "message id"},
		{"a bad header of a delivery", "waiter", "01a107a102816141", "ascending names"},
		{"a bad header of a timeout", "waiter", "01a10ba102816141", "ascending names"},
		{"a bad header that is shown", "waiter", "01a10d816141", "ascending names"},
		{"a bad header of a timeout that is shown", "waiter", "01a10f816141", "ascending names"},
		{"nesting without end", "message", "01a10a" + strings.Repeat("a10b", 4000), "nested"},
	} {
		t.Run(test.name, func(t *testing.T) {
			data, err := hex.DecodeString(test.hex)
			if err != nil {
				t.Fatal(err)
			}
			err = decoders[test.decoder](data)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}
