package wire_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/eventlog"
)

func TestStats(t *testing.T) {
	now := time.Date(2026, 3, 5, 13, 20, 0, 0, time.UTC)
	hours := eventlog.StatsQuery{From: now.Add(-23 * time.Hour).Truncate(time.Hour), Until: now.Add(time.Hour).Truncate(time.Hour), Bucket: time.Hour, Most: 10}
	with := func(change func(*eventlog.StatsQuery)) eventlog.StatsQuery {
		query := hours
		change(&query)
		return query
	}
	for params, want := range map[string]eventlog.StatsQuery{
		"":                                     hours,
		"bucket=&fromDate=&count=&order=":      hours,
		"bucket=hour&count=7":                  with(func(q *eventlog.StatsQuery) { q.Most = 7 }),
		"count=1000":                           with(func(q *eventlog.StatsQuery) { q.Most = 100 }),
		fmt.Sprint("toDate=", now.UnixMilli()): hours,
		fmt.Sprintf("fromDate=%d", now.UnixMilli()): with(func(q *eventlog.StatsQuery) { q.From = now.Truncate(time.Hour) }),
		"bucket=day": with(func(q *eventlog.StatsQuery) {
			q.From, q.Until = time.Date(2026, 2, 4, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 6, 0, 0, 0, 0, time.UTC)
			q.Bucket = 24 * time.Hour
		}),
		"host=A.example&path=/p&queueName=q&label=l,m&state=error": with(func(q *eventlog.StatsQuery) {
			q.Filter = posthaste.Filter{
				Hosts: []string{"A.example"}, Paths: []string{"/p"}, Queues: []string{"q"}, Labels: []string{"l", "m", "l,m"},
				States: []posthaste.State{posthaste.StateError},
			}
		}),
	} {
		values, err := url.ParseQuery(params)
		if err != nil {
			t.Fatal(err)
		}
		got, bucket, err := wire.Stats(values, now)
		if diff := cmp.Diff(want, got); err != nil || diff != "" || strings.Contains(params, "day") != (bucket == "day") {
			t.Errorf("%q is %s, %v (-want +got):\n%s", params, bucket, err, diff)
		}
	}
	for params, want := range map[string]string{
		"bucket=week":                      `bucket "week" is not hour or day`,
		"messageId=msg_1":                  `parameter "messageId" is unknown: state, queueName, label, host, path, fromDate, toDate, bucket, count are accepted`,
		"fromDate=soon":                    `fromDate "soon" is not a Unix time in milliseconds`,
		"state=lost":                       `state "lost" is not one of`,
		"fromDate=2000000000000":           "fromDate 2000000000000 is after toDate 1772716800000",
		"fromDate=7200000&toDate=5":        "fromDate 7200000 is after toDate 5",
		"fromDate=1769000000000":           "fromDate to toDate are 1034 buckets of one hour, at most 744 are accepted: take a shorter interval, or bucket=day",
		"bucket=day&fromDate=1":            "at most 744 are accepted",
		"toDate=17592186044415&fromDate=1": "at most 744 are accepted",
	} {
		values, err := url.ParseQuery(params)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := wire.Stats(values, now); posthaste.ErrorCode(err) != posthaste.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", params, err, want)
		}
	}
}
