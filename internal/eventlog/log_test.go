package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// fakeStore is a store.Log made of a function.
type fakeStore func(user string, query store.EventQuery) (store.EventPage, error)

func (f fakeStore) Events(_ context.Context, user string, query store.EventQuery) (store.EventPage, error) {
	return f(user, query)
}

// storeOf answers queries from a list of entries, oldest first.
func storeOf(entries []store.Entry) fakeStore {
	return func(_ string, query store.EventQuery) (page store.EventPage, err error) {
		ordered := slices.Clone(entries)
		if !query.OldestFirst {
			slices.Reverse(ordered)
		}
		for _, e := range ordered {
			if e.Position < query.Low || e.Position > query.High || !query.Filter.Matches(&e.Event, e.Message) {
				continue
			}
			if len(page.Entries) == query.Limit {
				page.More, page.Next = true, e.Position
				break
			}
			page.Entries = append(page.Entries, e)
		}
		return page, nil
	}
}

// asked returns the query that parameters are translated to.
func asked(t *testing.T, options eventlog.Options, params string) (query store.EventQuery, called bool, err error) {
	t.Helper()
	values, err := url.ParseQuery(params)
	if err != nil {
		t.Fatalf("bad test parameters %q: %v", params, err)
	}
	options.Store = fakeStore(func(_ string, q store.EventQuery) (store.EventPage, error) {
		query, called = q, true
		return store.EventPage{}, nil
	})
	_, err = eventlog.New(options).Query(t.Context(), "ann", values)
	return query, called, err
}

func messageID(n byte) posthaste.MessageID { return posthaste.MessageID{5: n, 15: n} }

func TestQueryTranslation(t *testing.T) {
	a, b := messageID(1), messageID(2)
	const ms = 1_700_000_000_000
	first, last := posthaste.FirstPosition(time.UnixMilli(ms)), posthaste.LastPosition(time.UnixMilli(ms))
	everything := store.EventQuery{High: posthaste.MaxPosition, Limit: 1000}
	with := func(change func(*store.EventQuery)) store.EventQuery {
		query := everything
		change(&query)
		return query
	}
	filtered := func(filter store.EventFilter) store.EventQuery {
		return with(func(q *store.EventQuery) { q.Filter = filter })
	}
	tests := []struct {
		name   string
		params string
		want   store.EventQuery
	}{
		{"nothing given", "", everything},
		{"empty values", "cursor=&state=&url=&count=&order=&fromDate=&toDate=&messageId=", everything},
		{"unknown and ignored", "api=llm&groupBy=workflowRunId&color=red", everything},

		{"count", "count=7", with(func(q *store.EventQuery) { q.Limit = 7 })},
		{"count at the maximum", "count=1000", everything},
		{"count over the maximum", "count=1001", everything},
		{"count over all integers", "count=99999999999999999999999", everything},
		{"latest first", "order=latestFirst", everything},
		{"earliest first", "order=earliestFirst", with(func(q *store.EventQuery) { q.OldestFirst = true })},
		{"from a date", fmt.Sprint("fromDate=", ms), with(func(q *store.EventQuery) { q.Low = first })},
		{"to a date", fmt.Sprint("toDate=", ms), with(func(q *store.EventQuery) { q.High = last })},
		{"one millisecond", fmt.Sprintf("fromDate=%d&toDate=%d", ms, ms),
			with(func(q *store.EventQuery) { q.Low, q.High = first, last })},
		{"a date beyond all positions", "toDate=9000000000000000000", everything},

		{"time as cursor, latest first", fmt.Sprint("cursor=", ms), with(func(q *store.EventQuery) { q.High = last })},
		{"time as cursor, earliest first", fmt.Sprint("order=earliestFirst&cursor=", ms),
			with(func(q *store.EventQuery) { q.OldestFirst, q.Low = true, first })},
		{"cursor before toDate", fmt.Sprintf("cursor=%d&toDate=%d", ms, ms+5),
			with(func(q *store.EventQuery) { q.High = last })},
		{"cursor after toDate", fmt.Sprintf("cursor=%d&toDate=%d", ms+5, ms),
			with(func(q *store.EventQuery) { q.High = last })},
		{"cursor before fromDate, earliest first", fmt.Sprintf("order=earliestFirst&cursor=%d&fromDate=%d", ms-5, ms),
			with(func(q *store.EventQuery) { q.OldestFirst, q.Low = true, first })},

		{"message id", "messageId=" + a.String(), filtered(store.EventFilter{MessageIDs: []posthaste.MessageID{a}})},
		{"message ids repeated", "messageIds=" + a.String() + "&messageIds=" + b.String(),
			filtered(store.EventFilter{MessageIDs: []posthaste.MessageID{a, b}})},
		{"message ids with commas", "messageIds=" + a.String() + "," + b.String(),
			filtered(store.EventFilter{MessageIDs: []posthaste.MessageID{a, b}})},
		{"message id among others", "messageId=" + b.String() + "&messageIds=" + a.String() + "," + b.String(),
			filtered(store.EventFilter{MessageIDs: []posthaste.MessageID{b}})},
		{"message id beside a text that is none", "messageIds=msg_1," + a.String(),
			filtered(store.EventFilter{MessageIDs: []posthaste.MessageID{a}})},

		{"state", "state=ERROR", filtered(store.EventFilter{States: []posthaste.State{posthaste.StateError}})},
		{"state in lower case", "state=created", filtered(store.EventFilter{States: []posthaste.State{posthaste.StateCreated}})},
		{"both spellings of cancelled", "state=canceled",
			filtered(store.EventFilter{States: []posthaste.State{posthaste.StateCancelled}})},
		{"several states", "state=FAILED,%20Delivered&state=CANCELLED", filtered(store.EventFilter{
			States: []posthaste.State{posthaste.StateFailed, posthaste.StateDelivered, posthaste.StateCancelled}})},
		{"in progress", "state=In_Progress", filtered(store.EventFilter{
			States: []posthaste.State{posthaste.StateActive, posthaste.StateRetry, posthaste.StateError}})},

		{"url", "url=https://example.com/a?b=c", filtered(store.EventFilter{URLs: []string{"https://example.com/a?b=c"}})},
		{"url with a comma", "url=https://example.com/a,b",
			filtered(store.EventFilter{URLs: []string{"https://example.com/a", "b", "https://example.com/a,b"}})},
		{"topic", "topicName=orders", filtered(store.EventFilter{URLGroups: []string{"orders"}})},
		{"schedule", "scheduleId=scd_1", filtered(store.EventFilter{ScheduleIDs: []string{"scd_1"}})},
		{"queue", "queueName=q", filtered(store.EventFilter{Queues: []string{"q"}})},
		{"labels repeated", "label=x&label=y&label=x", filtered(store.EventFilter{Labels: []string{"x", "y"}})},
		{"host", "host=Example.com", filtered(store.EventFilter{Hosts: []string{"Example.com"}})},
		{"path", "path=/a/b", filtered(store.EventFilter{Paths: []string{"/a/b"}})},
		{"caller under both names", "callerIp=10.0.0.1&callerIP=10.0.0.2",
			filtered(store.EventFilter{CallerIPs: []string{"10.0.0.1", "10.0.0.2"}})},
		{"flow key", "flowControlKey=k%201", filtered(store.EventFilter{FlowKeys: []string{"k 1"}})},
		{"filters together", "queueName=q&label=x", filtered(store.EventFilter{Queues: []string{"q"}, Labels: []string{"x"}})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, called, err := asked(t, eventlog.Options{}, test.params)
			if err != nil || !called {
				t.Fatalf("Query(%s) asked the store: %v, error %v", test.params, called, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Query(%s) differs (-want +got):\n%s", test.params, diff)
			}
		})
	}
}

func TestQuerySelectsNothing(t *testing.T) {
	a, b := messageID(1).String(), messageID(2).String()
	tests := []struct{ name, params string }{
		{"from after to", "fromDate=2&toDate=1"},
		{"cursor before fromDate", "fromDate=2000&cursor=1000"},
		{"cursor after toDate, earliest first", "order=earliestFirst&toDate=1000&cursor=2000"},
		{"no message id at all", "messageId=msg_unknown"},
		{"two filters of ids without a common one", "messageId=" + a + "&messageIds=" + b},
		{"no id in the first of two filters", "messageId=nonsense&messageIds=" + b},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if query, called, err := asked(t, eventlog.Options{}, test.params); called || err != nil {
				t.Errorf("Query(%s) asked for %+v, error %v; want neither", test.params, query, err)
			}
		})
	}
}

func TestQueryErrors(t *testing.T) {
	tests := []struct{ name, params, want string }{
		{"count zero", "count=0", `count "0" is not a whole number of at least 1`},
		{"count negative", "count=-1", `count "-1" is not a whole number of at least 1`},
		{"count no number", "count=many", `count "many" is not a whole number of at least 1`},
		{"count fraction", "count=1.5", `count "1.5" is not a whole number of at least 1`},
		{"count twice", "count=1&count=2", `count is given 2 times, it can have one value`},
		{"order unknown", "order=random", `order "random" is not earliestFirst or latestFirst`},
		{"order twice", "order=latestFirst&order=latestFirst", `order is given 2 times, it can have one value`},
		{"from no date", "fromDate=yesterday", `fromDate "yesterday" is not a Unix time in milliseconds`},
		{"from negative", "fromDate=-1", `fromDate "-1" is not a Unix time in milliseconds`},
		{"to no date", "toDate=2024-01-01", `toDate "2024-01-01" is not a Unix time in milliseconds`},
		{"to too large", "toDate=99999999999999999999", `toDate "99999999999999999999" is not a Unix time in milliseconds`},
		{"to twice", "toDate=1&toDate=2", `toDate is given 2 times, it can have one value`},
		{"cursor no cursor", "cursor=!", `cursor "!" is not the cursor of an earlier answer or a Unix time in milliseconds`},
		{"cursor without position", "cursor=p", `cursor "p" is not the cursor of an earlier answer or a Unix time in milliseconds`},
		{"cursor not as we write it", "cursor=p0A", `cursor "p0A" is not the cursor of an earlier answer or a Unix time in milliseconds`},
		{"cursor negative", "cursor=-5", `cursor "-5" is not the cursor of an earlier answer or a Unix time in milliseconds`},
		{"cursor twice", "cursor=1&cursor=2", `cursor is given 2 times, it can have one value`},
		{"state unknown", "state=DONE", `state "DONE" is not one of CREATED, ACTIVE, RETRY, ERROR, DELIVERED, FAILED, CANCEL_REQUESTED, CANCELLED, IN_PROGRESS`},
		{"state unknown in a list", "state=ERROR,DONE", `state "DONE" is not one of CREATED, ACTIVE, RETRY, ERROR, DELIVERED, FAILED, CANCEL_REQUESTED, CANCELLED, IN_PROGRESS`},
		{"error beside a filter that nothing passes", "messageId=msg_unknown&count=x", `count "x" is not a whole number of at least 1`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, called, err := asked(t, eventlog.Options{}, test.params)
			if called {
				t.Error("the store was asked")
			}
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid || err.Error() != test.want {
				t.Errorf("Query(%s) = %v, want invalid: %s", test.params, err, test.want)
			}
		})
	}
}

func TestQueryTooManyValues(t *testing.T) {
	values := url.Values{}
	for i := range 1000 {
		values.Add("label", fmt.Sprint(i))
	}
	if _, _, err := asked(t, eventlog.Options{}, values.Encode()); err != nil {
		t.Errorf("1000 values: %v", err)
	}
	values.Add("label", "one more")
	_, called, err := asked(t, eventlog.Options{}, values.Encode())
	const want = "label has more than the 1000 values that it can have"
	if called || posthaste.ErrorCode(err) != posthaste.CodeInvalid || err.Error() != want {
		t.Errorf("1001 values: %v, want %s", err, want)
	}
}

func TestCountOptions(t *testing.T) {
	tests := []struct {
		name    string
		options eventlog.Options
		params  string
		want    int
	}{
		{"default", eventlog.Options{DefaultCount: 10, MaxCount: 50}, "", 10},
		{"between", eventlog.Options{DefaultCount: 10, MaxCount: 50}, "count=40", 40},
		{"over the maximum", eventlog.Options{DefaultCount: 10, MaxCount: 50}, "count=60", 50},
		{"maximum alone is the default too", eventlog.Options{MaxCount: 50}, "", 50},
		{"default over the maximum", eventlog.Options{DefaultCount: 100, MaxCount: 50}, "", 50},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			query, _, err := asked(t, test.options, test.params)
			if err != nil || query.Limit != test.want {
				t.Errorf("Limit = %d, %v; want %d", query.Limit, err, test.want)
			}
		})
	}
}

func TestQueryPassesOn(t *testing.T) {
	broken := errors.New("disk on fire")
	log := eventlog.New(eventlog.Options{Store: fakeStore(func(user string, _ store.EventQuery) (store.EventPage, error) {
		if user != "ann" {
			t.Errorf("user = %q", user)
		}
		return store.EventPage{}, broken
	})})
	if _, err := log.Query(t.Context(), "ann", nil); !errors.Is(err, broken) {
		t.Errorf("Query = %v, want the store's error", err)
	}
}

// TestPaging reads a log to its end, page by page, and expects every entry once.
func TestPaging(t *testing.T) {
	entries := someEntries(23)
	for _, order := range []string{"latestFirst", "earliestFirst"} {
		for _, count := range []string{"1", "4", "23", "1000"} {
			t.Run(order+" by "+count, func(t *testing.T) {
				log := eventlog.New(eventlog.Options{Store: storeOf(entries)})
				want := slices.Clone(entries)
				if order == "latestFirst" {
					slices.Reverse(want)
				}
				got := readAll(t, log, url.Values{"order": {order}, "count": {count}})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("entries differ (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestPagingBeginsWithATime is how clients begin that know no cursor.
func TestPagingBeginsWithATime(t *testing.T) {
	entries := someEntries(10)
	log := eventlog.New(eventlog.Options{Store: storeOf(entries)})
	got := readAll(t, log, url.Values{"count": {"2"}, "cursor": {"1700000000004"}})
	want := slices.Clone(entries[:5])
	slices.Reverse(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries differ (-want +got):\n%s", diff)
	}
}

func someEntries(n int) []store.Entry {
	var entries []store.Entry
	for i := range n {
		at := posthaste.FirstPosition(time.UnixMilli(1_700_000_000_000+int64(i))) + posthaste.Position(i%3)
		entries = append(entries, store.Entry{
			Event:   posthaste.Event{Position: at, State: posthaste.StateCreated},
			Message: &posthaste.Message{},
		})
	}
	return entries
}

// readAll follows the cursors from params to the end.
func readAll(t *testing.T, log *eventlog.Log, params url.Values) []store.Entry {
	t.Helper()
	var all []store.Entry
	for range 100 {
		page, err := log.Query(t.Context(), "ann", params)
		if err != nil {
			t.Fatalf("Query(%v): %v", params, err)
		}
		all = append(all, page.Entries...)
		if page.Cursor == "" {
			return all
		}
		params.Set("cursor", page.Cursor)
	}
	t.Fatal("the log has no end")
	return nil
}
