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
		SourceID:   posthaste.MessageID{0xff},
		Settings:   settings,
	}
	m.Callback = &posthaste.Callback{URL: "http://c", Delay: time.Second, Given: http.Header{"C": {"3"}}, Settings: settings}
	m.FailureCallback = &posthaste.Callback{URL: "http://f", Settings: posthaste.Settings{Trace: "t"}}
	return m
}

// The stored form must not change: what an older program wrote has to be read.
// A failure here means that a number was moved or an encoding option changed.
func TestStoredForm(t *testing.T) {
	const settings = "0163505554" + "028661416131614161306142" + "6132" + "0300" + "046c313030302a72657472696564" +
		"051a77359400" + "06826372656463626967" + "07616b" + "0801" + "0902" + "0a1b0000000df8475800"
	const lastSettings = "0d02" + "0ef5" + "0ff5" + "10816141"
	const want = "01" + "ab" +
		"0168687474703a2f2f61" + "0244626f6479" + "031b0000018bcfe56800" + "041b0000018bcfe56be8" +
		"05633a3a31" + "066171" + "076167" + "086165" + "096173" +
		"0ab0" + settings +
		"0ba4" + "0168687474703a2f2f63" + "021a3b9aca00" + "038261436133" + "04ae" + settings + lastSettings +
		"0ca2" + "0168687474703a2f2f66" + "04a1116174" + lastSettings +
		"0b50ff000000000000000000000000000000"

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

// The other kinds, each with every field set.
func TestStoredFormOfOtherKinds(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	id := posthaste.MessageID{0xff}
	bare := &posthaste.Message{ID: id, URL: "http://a", CreatedAt: at, NotBefore: at}
	response := &posthaste.Response{Status: 503, Header: http.Header{"A": {"1"}}, Body: []byte("no"), Truncated: true}
	for _, test := range []struct {
		name string
		got  []byte
		want string
	}{
		{
			"event",
			AppendEvent(nil, &posthaste.Event{State: posthaste.StateError, Error: "no", NextDeliveryAt: at}),
			"01a3010402626e6f031b0000018bcfe56800",
		},
		{
			"event of an attempt",
			AppendEvent(nil, &posthaste.Event{State: posthaste.StateDelivered, Attempt: posthaste.Attempt{Status: 204, Took: 46 * time.Millisecond}}),
			"01a301050418cc05182e",
		},
		{"response", AppendResponse(nil, response), "01a4011901f702826141613103426e6f04f5"},
		{
			"dead letter",
			AppendDeadLetter(nil, &posthaste.DeadLetter{ID: 1, Message: bare, Error: "no", Response: response}),
			"01a40150ff00000000000000000000000000000002581801a30168687474703a2f2f61031b0000018bcfe568000aa003626e6f045201a4011901f702826141613103426e6f04f5",
		},
		{
			"queue",
			AppendQueue(nil, &posthaste.Queue{Name: "q", Parallelism: 2, Paused: true, CreatedAt: at, UpdatedAt: at}),
			"01a4010202f5031b0000018bcfe56800041b0000018bcfe56800",
		},
		{
			"URL group",
			AppendURLGroup(nil, &posthaste.URLGroup{
				Name:      "g",
				Endpoints: []posthaste.Endpoint{{Name: "n", URL: "u"}},
				Headers:   http.Header{"A": {"1"}},
				CreatedAt: at,
				UpdatedAt: at,
			}),
			"01a40182616e6175028261416131031b0000018bcfe56800041b0000018bcfe56800",
		},
		{
			"schedule",
			AppendSchedule(nil, &posthaste.Schedule{
				ID: "s", User: "u", Cron: "* * * * *", Destination: "d", Queue: "q", Body: []byte("b"), Delay: 1,
				CallerIP: "::1", CreatedAt: at, Paused: true, LastAt: at, NextAt: at,
				LastMessages: []posthaste.MessageID{id}, Error: "no", Settings: posthaste.Settings{Method: "GET"},
			}),
			"01ad01692a202a202a202a202a026164036171044162050106633a3a31071b0000018bcfe5680008f5091b0000018bcfe568000a1b0000018bcfe568000b8150ff0000000000000000000000000000000c626e6f0da10163474554",
		},
		{
			"flow-control key",
			AppendFlowKey(nil, &posthaste.FlowKey{
				Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: 1, Rate: 2, Period: 3}, CreatedAt: at, UsedAt: at,
				PinnedParallelism: true, PinnedRate: true, Paused: true, WindowStartedAt: at, WindowCount: 4,
			}),
			"01aa01010202030304f505f506f5071b0000018bcfe568000804091b0000018bcfe568000a1b0000018bcfe56800",
		},
		{
			"bulk action",
			AppendAction(nil, &posthaste.BulkAction{
				ID: "a", User: "u", Kind: posthaste.ActionRetry, CallerIP: "::1",
				Filter: posthaste.Filter{
					MessageIDs: []posthaste.MessageID{id}, DeadLetterIDs: []posthaste.DeadLetterID{2}, RunIDPrefixes: []string{"3"},
					URLs: []string{"4"}, URLPrefixes: []string{"5"}, URLGroups: []string{"6"}, ScheduleIDs: []string{"7"}, Queues: []string{"8"},
					Labels: []string{"9"}, Hosts: []string{"10"}, Paths: []string{"11"}, CallerIPs: []string{"12"}, FlowKeys: []string{"13"},
					Statuses: []int{14}, CallbackStates: []posthaste.CallbackState{"15"}, CreatedAts: []time.Time{time.UnixMilli(16)},
					From: 17, Until: 18,
				},
				Overrides: posthaste.Overrides{Delay: 1, NotBefore: time.UnixMilli(0), Settings: posthaste.Settings{Method: "GET"}},
				Asked:     map[string][]string{"f": {"1"}},
				Total:     3, Processed: 1, Failed: 1, Failures: []posthaste.ActionFailure{{ID: "i", Error: "no"}},
				Cursor: posthaste.ActionCursor{Low: 1, High: 2, Live: "c"}, CreatedAt: at, CompletedAt: at, Cancelled: true,
			}),
			"01b10165726574727902b00181020281613303816134048161350581613606816137078161380881613909816231300a816231310b816231320c816231330d810e0e816231350f11101203a30101020003a1016347455404030501060107826169626e6f0801091b0000018bcfe568000a1b0000018bcfe568000b633a3a310cf50d020e61630f8261666131108150ff000000000000000000000000000000118110",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := hex.EncodeToString(test.got); got != test.want {
				t.Errorf("stored form %s, want %s", got, test.want)
			}
		})
	}
}
