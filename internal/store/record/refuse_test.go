package record

import (
	"encoding/hex"
	"strings"
	"testing"

	"posthaste"
)

func TestDecodeRefuses(t *testing.T) {
	decoders := map[string]func([]byte) error{
		"message": func(data []byte) error {
			_, err := DecodeMessage(posthaste.MessageID{}, "", data)
			return err
		},
		"event": func(data []byte) error {
			_, err := DecodeEvent(data)
			return err
		},
		"response": func(data []byte) error {
			_, err := DecodeResponse(data)
			return err
		},
	}
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
		{"an unknown state", "event", "01a1010c", "state 12 is unknown"},
		{"a header name without value", "response", "01a102816141", "ascending names"},
		{"header names out of order", "response", "01a10284614261316141" + "6132", "ascending names"},
		{"a bad header in a callback", "message", "01a10aa10ba103816141", "ascending names"},
		{"a list longer than the data", "response", "01a1029b00000000ffffffff", "exceed"},
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
