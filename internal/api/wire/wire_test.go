package wire_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

func parse(t *testing.T, params string) url.Values {
	t.Helper()
	values, err := url.ParseQuery(params)
	if err != nil {
		t.Fatalf("bad test parameters %q: %v", params, err)
	}
	return values
}

// checkRefused fails unless an error has CodeInvalid and is the sentence.
func checkRefused(t *testing.T, err error, want string) {
	t.Helper()
	if posthaste.ErrorCode(err) != posthaste.CodeInvalid || err.Error() != want {
		t.Errorf("error %v, want invalid: %s", err, want)
	}
}

func messageID(n byte) posthaste.MessageID { return posthaste.MessageID{5: n, 15: n} }

// Contract, decision 4 and U-70.
func TestCount(t *testing.T) {
	tests := []struct {
		name   string
		count  wire.Count
		params string
		want   int
	}{
		{"default", wire.Count{Default: 10, Most: 50}, "", 10},
		{"without a value", wire.Count{Default: 10, Most: 50}, "count=", 10},
		{"between", wire.Count{Default: 10, Most: 50}, "count=40", 40},
		{"at the most", wire.Count{Default: 10, Most: 50}, "count=50", 50},
		{"over the most", wire.Count{Default: 10, Most: 50}, "count=51", 50},
		{"over all integers", wire.Count{Default: 10, Most: 50}, "count=99999999999999999999999", 50},
		{"no bound by default", wire.Count{Most: 50}, "", 0},
		{"no bound at all", wire.Count{}, "count=70", 70},
		{"no bound and over 32 bits", wire.Count{}, "count=5000000000", 1<<31 - 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.count.Read(parse(t, test.params))
			if err != nil || got != test.want {
				t.Errorf("Read(%s) = %d, %v; want %d", test.params, got, err, test.want)
			}
		})
	}
	t.Run("not a count", func(t *testing.T) {
		_, err := wire.Count{}.Read(parse(t, "count=0"))
		checkRefused(t, err, `count "0" is not a whole number of at least 1`)
	})
}

func TestTooManyValues(t *testing.T) {
	const most = 1000
	for _, name := range []string{"label", "state", "messageId", "messageIds"} {
		t.Run("events "+name, func(t *testing.T) {
			_, err := wire.Events(url.Values{name: distinct(name, most+1)}, wire.Count{})
			checkRefused(t, err, name+" has more than the 1000 values that it can have")
		})
	}
	for _, name := range []string{"dlqIds", "responseStatus", "url", "messageId"} {
		t.Run("dead letters "+name, func(t *testing.T) {
			_, err := deadLetters(url.Values{name: distinct(name, most+1)})
			checkRefused(t, err, name+" has more than the 1000 values that it can have")
		})
	}
	t.Run("bytes", func(t *testing.T) {
		const body = 1 << 20
		long := url.Values{"label": {"a," + strings.Repeat("b", body-2)}}
		if _, err := wire.Live(long); err != nil {
			t.Error(err)
		}
		_, err := wire.Live(url.Values{"path": {strings.Repeat("é", body/2)}})
		checkRefused(t, err, "the filters have 4194304 bytes with the spellings that are searched for, at most 2097152 are accepted")
	})
	t.Run("as many as there can be", func(t *testing.T) {
		query, err := wire.Events(url.Values{"label": distinct("label", most)}, wire.Count{})
		if err != nil || len(query.Filter.Labels) != most {
			t.Errorf("%d labels, error %v", len(query.Filter.Labels), err)
		}
	})
	t.Run("ids of a bulk call", func(t *testing.T) {
		texts, err := wire.IDs(url.Values{"dlqIds": distinct("", most+1)}, "dlqIds")
		if err != nil || len(texts) != most+1 {
			t.Errorf("%d ids, error %v", len(texts), err)
		}
	})
}

func distinct(prefix string, n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint(prefix, i)
	}
	return values
}

// Contract, workflows D 38.
func TestNoIDs(t *testing.T) {
	for name, list := range map[string][]string{"not given": nil, "an empty list": {}} {
		params := url.Values{}
		if list != nil {
			params["ids"] = list
		}
		texts, err := wire.IDs(params, "ids")
		if err != nil || len(texts) > 0 || (texts == nil) != (list == nil) {
			t.Errorf("%s: %#v, %v", name, texts, err)
		}
	}
}

func TestIDs(t *testing.T) {
	for params, want := range map[string]string{
		"x=1":                     "[]",
		"ids=b":                   "[b]",
		"ids=b,%20a,,&ids=c,a&x=": "[b a c]",
	} {
		t.Run(params, func(t *testing.T) {
			texts, err := wire.IDs(parse(t, params), "ids")
			if fmt.Sprint(texts) != want || err != nil {
				t.Errorf("IDs(%s) = %v, %v", params, texts, err)
			}
		})
	}
	for _, params := range []string{"ids=", "ids=,", "ids=&ids=%20"} {
		t.Run(params, func(t *testing.T) {
			_, err := wire.IDs(parse(t, params), "ids")
			checkRefused(t, err, "ids has no value: give one, or leave it out to select by other filters or everything")
		})
	}
}

// Contract, decision 10.
func TestBackground(t *testing.T) {
	filter, err := wire.Background(parse(t, "label=a&label=b&async=true&order=latestFirst&api=x&source=workflow&url[]=a,b"))
	if err != nil || filter.Encode() != "label=a&label=b&source=workflow&url%5B%5D=a%2Cb" {
		t.Errorf("Background = %v, %v", filter, err)
	}
	for _, name := range []string{"count", "cursor"} {
		t.Run(name, func(t *testing.T) {
			_, err := wire.Background(url.Values{"async": {"true"}, name: {"1"}})
			checkRefused(t, err, name+" cannot be given with async=true, which changes everything that the filters match")
		})
	}
}

// TestFlag checks that a flag is on, off or refused (contract, decision 26): one that
// has lost its value must not turn a dry run into a change.
func TestFlag(t *testing.T) {
	tests := []struct {
		params string
		want   bool
	}{
		{"", false}, {"x=true", true}, {"x=True", true}, {"x=FALSE", false},
	}
	for _, test := range tests {
		t.Run(test.params, func(t *testing.T) {
			if got, err := wire.Flag(parse(t, test.params), "x"); got != test.want || err != nil {
				t.Errorf("Flag(%s) = %v, %v", test.params, got, err)
			}
		})
	}
	t.Run("neither", func(t *testing.T) {
		_, err := wire.Flag(parse(t, "x=1"), "x")
		checkRefused(t, err, `x "1" is not true or false`)
	})
	for name, params := range map[string]url.Values{"no value": parse(t, "x"), "null in a body": {"x": {}}} {
		t.Run(name, func(t *testing.T) {
			_, err := wire.Flag(params, "x")
			checkRefused(t, err, `x "" is not true or false`)
		})
	}
	t.Run("both", func(t *testing.T) {
		_, err := wire.Flag(parse(t, "x=true&x=false"), "x")
		checkRefused(t, err, `x is given 2 times, it can have one value`)
	})
}

// Contract, decision 16.
func TestRefuseAll(t *testing.T) {
	if err := wire.RefuseAll(parse(t, "")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"keep", "api", "count", "cursor", "order", "Service-X", "label[]"} {
		checkRefused(t, wire.RefuseAll(parse(t, name+"=1")), `parameter "`+name+`" is unknown: none is accepted here`)
	}
}

// What calls on the DLQs, and those that cancel, select, as queries of the store
// without limits.

func live(params url.Values) (store.LiveQuery, error) {
	filter, err := wire.Live(params)
	return store.LiveMatching(&filter), err
}

func liveRuns(params url.Values) (store.RunQuery, error) {
	filter, err := wire.LiveRuns(params)
	return store.RunsMatching(&filter), err
}

func deadLetters(params url.Values) (store.DeadLetterQuery, error) {
	s, err := wire.DeadLetters(params, wire.Count{})
	s.Limit = 0
	return s.DeadLetters(), err
}

func failedRuns(params url.Values) (store.RunQuery, error) {
	s, err := wire.FailedRuns(params, wire.Count{})
	s.Limit = 0
	return s.Runs(), err
}

func sweepLetters(params url.Values) (store.DeadLetterQuery, bool, error) {
	s, err := wire.SweepDeadLetters(params, wire.Count{})
	s.Limit = 0
	return s.DeadLetters(), s.Begun, err
}

func sweepRuns(params url.Values) (store.RunQuery, bool, error) {
	s, err := wire.SweepFailedRuns(params, wire.Count{})
	s.Limit = 0
	return s.Runs(), s.Begun, err
}
