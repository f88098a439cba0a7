package gosdk

import (
	"slices"
	"testing"
	"time"

	qstash "github.com/upstash/qstash-go"
)

func TestEventsList(t *testing.T) {
	s := newSink(t)
	group := newGroup(t, "go-events", s)
	receipts := must(client.UrlGroups().Enqueue(qstash.EnqueueUrlGroupOptions{
		Queue: "go-events", PublishUrlGroupOptions: qstash.PublishUrlGroupOptions{UrlGroup: group, Body: "event"},
	}))(t)
	id := receipts[0].MessageId
	equal(t, "the story", states(t, id), "CREATED ACTIVE DELIVERED")
	all := list(t, qstash.EventFilter{MessageId: id})
	checkEvents(t, all, id, s)

	tests := map[string]struct {
		filter qstash.EventFilter
		want   []qstash.Event
	}{
		"url":            {qstash.EventFilter{Url: s.url + "/first"}, all},
		"group":          {qstash.EventFilter{MessageId: id, UrlGroup: group}, all},
		"other group":    {qstash.EventFilter{MessageId: id, UrlGroup: "group"}, all[:0]},
		"queue":          {qstash.EventFilter{MessageId: id, Queue: "go-events"}, all},
		"other queue":    {qstash.EventFilter{MessageId: id, Queue: "events"}, all[:0]},
		"state":          {qstash.EventFilter{MessageId: id, State: qstash.Delivered}, all[:1]},
		"other schedule": {qstash.EventFilter{MessageId: id, ScheduleId: "scd_1"}, all[:0]},
		"from the end":   {qstash.EventFilter{MessageId: id, FromDate: time.UnixMilli(all[0].Time)}, since(all, all[0].Time)},
		"to before it":   {qstash.EventFilter{MessageId: id, ToDate: time.UnixMilli(all[2].Time - 1)}, all[:0]},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { equal(t, "the events", list(t, test.filter), test.want) })
	}
	t.Run("pages", func(t *testing.T) { equal(t, "the events", pages(t, id), all) })
}

// checkEvents compares what the events of a delivery through a group and a queue
// tell besides their states.
func checkEvents(t *testing.T, events []qstash.Event, id string, s *sink) {
	t.Helper()
	for _, event := range slices.Backward(events) {
		equal(t, "the event", event, qstash.Event{
			Time:         event.Time,
			State:        event.State,
			MessageId:    id,
			Url:          s.url + "/first",
			UrlGroup:     "go-events",
			EndpointName: "First endpoint",
			QueueName:    "go-events",
		})
	}
}

// since returns the events that are not older than a time in Unix milliseconds.
func since(events []qstash.Event, ms int64) []qstash.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e qstash.Event) bool { return e.Time < ms })
}

// pages follows the cursor in pages of one event.
func pages(t *testing.T, id string) []qstash.Event {
	t.Helper()
	var all []qstash.Event
	options := qstash.ListEventsOptions{Count: 1, Filter: qstash.EventFilter{MessageId: id}}
	for {
		events, cursor, err := client.Events().List(options)
		check(t, err)
		all = append(all, events...)
		if options.Cursor = cursor; cursor == "" {
			return all
		}
	}
}
