package record

import (
	"encoding/hex"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
)

// fullMessage has every field set.
func fullMessage() *posthaste.Message {
	retries := 0
	at := time.UnixMilli(1_700_000_000_000)
	settings := posthaste.Settings{
		Method:     "PUT",
		Header:     http.Header{"B": {"2"}, "A": {"1", "0"}},
		Retries:    &retries,
		RetryDelay: "1000*retried",
		Timeout:    2 * time.Second,
		Labels:     []string{"red", "big"},
		FlowControl: posthaste.FlowControl{
			Key:       "k",
			FlowLimit: posthaste.FlowLimit{Parallelism: 1, Rate: 2, Period: time.Minute},
		},
		Redact:  posthaste.Redaction{Body: true, AllHeaders: true, Headers: []string{"A"}},
		Dialect: posthaste.DialectService,
	}
	m := &posthaste.Message{
		ID:         posthaste.MessageID{1},
		User:       "u",
		URL:        "http://a",
		Body:       []byte("body"),
		CreatedAt:  at,
		NotBefore:  at.Add(time.Second),
		CallerIP:   "::1",
		Queue:      "q",
		URLGroup:   "g",
		Endpoint:   "e",
		ScheduleID: "s",
		Settings:   settings,
	}
	m.Callback = &posthaste.Callback{URL: "http://c", Delay: time.Second, Given: http.Header{"C": {"3"}}, Settings: settings}
	m.FailureCallback = &posthaste.Callback{URL: "http://f"}
	return m
}

// The stored form must not change: what an older program wrote has to be read.
// A failure here means that a number was moved or an encoding option changed.
func TestStoredForm(t *testing.T) {
	const settings = "0163505554" + "028661416131614161306142" + "6132" + "0300" + "046c313030302a72657472696564" +
		"051a77359400" + "06826372656463626967" + "07616b" + "0801" + "0902" + "0a1b0000000df8475800"
	const lastSettings = "0d02" + "0ef5" + "0ff5" + "10816141"
	const want = "01" + "aa" +
		"0168687474703a2f2f61" + "0244626f6479" + "031b0000018bcfe56800" + "041b0000018bcfe56be8" +
		"05633a3a31" + "066171" + "076167" + "086165" + "096173" +
		"0ab0" + settings +
		"0ba4" + "0168687474703a2f2f63" + "021a3b9aca00" + "038261436133" + "04ae" + settings + lastSettings +
		"0ca2" + "0168687474703a2f2f66" + "04a0" + lastSettings

	if got := hex.EncodeToString(AppendMessage(nil, fullMessage())); got != want {
		t.Errorf("stored form\n%s, want\n%s", got, want)
	}
	data, err := hex.DecodeString(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeMessage(posthaste.MessageID{1}, "u", data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullMessage(), got); diff != "" {
		t.Errorf("decoded message (-want +got):\n%s", diff)
	}
}

func TestStoredFormOfEvent(t *testing.T) {
	event := posthaste.Event{State: posthaste.StateError, Error: "no", NextDeliveryAt: time.UnixMilli(1_700_000_000_000)}
	const want = "01a30104" + "02626e6f" + "031b0000018bcfe56800"
	if got := hex.EncodeToString(AppendEvent(nil, &event)); got != want {
		t.Errorf("stored form %s, want %s", got, want)
	}
}

func TestStoredFormOfResponse(t *testing.T) {
	response := posthaste.Response{Status: 503, Header: http.Header{"A": {"1"}}, Body: []byte("no"), Truncated: true}
	const want = "01a4" + "011901f7" + "028261416131" + "03426e6f" + "04f5"
	if got := hex.EncodeToString(AppendResponse(nil, &response)); got != want {
		t.Errorf("stored form %s, want %s", got, want)
	}
}
