package storetest

import (
	"fmt"
	"slices"

	"posthaste"
	"posthaste/internal/store"
)

var listPromises = []promise{
	{"a part of a list of schedules holds what fits, and leads on", func(tr *trial) {
		const each, body = 20, store.PageBytes / 8
		var want []string
		for i := range each {
			id := fmt.Sprintf("schedule-%02d", i)
			tr.updateSchedule(id, func(s *posthaste.Schedule) { s.Body = make([]byte, body) })
			want = append(want, id)
		}
		tr.wantParts(want, func(after string) ([]string, int, string, error) {
			list, err := tr.store.Schedules(tr.Context(), ann, after)
			names, size := describeList(list.Items, func(s *posthaste.Schedule) string { return s.ID }, store.ScheduleSize)
			return names, size, list.Next, err
		})
	}},
	{"a part of a list of groups holds what fits, and leads on", func(tr *trial) {
		var want []string
		for i := range 20 {
			name := fmt.Sprintf("group-%02d", i)
			tr.updateGroup(name, func(g *posthaste.URLGroup) {
				g.Endpoints = []posthaste.Endpoint{{URL: "http://a.example/"}}
				g.Headers = map[string][]string{"X": {string(make([]byte, store.PageBytes/8))}}
			})
			want = append(want, name)
		}
		tr.wantParts(want, func(after string) ([]string, int, string, error) {
			list, err := tr.store.URLGroups(tr.Context(), ann, after)
			names, size := describeList(list.Items, func(g *posthaste.URLGroup) string { return g.Name }, store.URLGroupSize)
			return names, size, list.Next, err
		})
	}},
	{"lists begin behind any name, also one that is not there", func(tr *trial) {
		for _, name := range []string{"a", "b", "d"} {
			tr.updateQueue(name, func(q *posthaste.Queue) { q.Parallelism = 1 })
			tr.updateFlowKey(name, func(*posthaste.FlowKey) {})
		}
		for after, want := range map[string][]string{"": {"a", "b", "d"}, "a": {"b", "d"}, "c": {"d"}, "d": nil, "e": nil} {
			queues, err := tr.store.Queues(tr.Context(), ann, after)
			keys, keysErr := tr.store.FlowKeys(tr.Context(), tr.now, ann, "", after)
			gotQueues, _ := describeList(queues.Items, func(q store.QueueStatus) string { return q.Name }, store.QueueSize)
			gotKeys, _ := describeList(keys.Items, func(k store.FlowStatus) string { return k.Key }, store.FlowKeySize)
			if err != nil || keysErr != nil || !slices.Equal(gotQueues, want) || !slices.Equal(gotKeys, want) || queues.Next+keys.Next != "" {
				tr.Errorf("after %q: queues %q, %v; keys %q, %v; want %q", after, gotQueues, err, gotKeys, keysErr, want)
			}
		}
	}},
}

func describeList[T any](items []T, name func(T) string, size func(T) int) (names []string, bytes int) {
	for _, item := range items {
		names, bytes = append(names, name(item)), bytes+size(item)
	}
	return names, bytes
}

// wantParts reads a list part by part, each of which must fit.
func (tr *trial) wantParts(want []string, read func(after string) (names []string, size int, next string, err error)) {
	tr.Helper()
	var got []string
	parts := 0
	for after, more := "", true; more; parts++ {
		names, size, next, err := read(after)
		if err != nil {
			tr.Fatal(err)
		}
		if size > store.PageBytes && len(names) > 1 {
			tr.Errorf("a part of %d items has %d bytes, want %d at most", len(names), size, store.PageBytes)
		}
		got = append(got, names...)
		after, more = next, next != ""
	}
	if !slices.Equal(got, want) || parts < 2 {
		tr.Errorf("%d parts hold %q, want some that hold %q", parts, got, want)
	}
}

func (tr *trial) allSchedules(user string) ([]*posthaste.Schedule, error) {
	return listAll(func(after string) (store.List[*posthaste.Schedule], error) {
		return tr.store.Schedules(tr.Context(), user, after)
	})
}

func (tr *trial) allGroups(user string) ([]*posthaste.URLGroup, error) {
	return listAll(func(after string) (store.List[*posthaste.URLGroup], error) {
		return tr.store.URLGroups(tr.Context(), user, after)
	})
}

func (tr *trial) allQueues(user string) ([]store.QueueStatus, error) {
	return listAll(func(after string) (store.List[store.QueueStatus], error) {
		return tr.store.Queues(tr.Context(), user, after)
	})
}

func (tr *trial) allFlowKeys(contains string) ([]store.FlowStatus, error) {
	return listAll(func(after string) (store.List[store.FlowStatus], error) {
		return tr.store.FlowKeys(tr.Context(), tr.now, ann, contains, after)
	})
}

// listAll reads all parts.
func listAll[T any](part func(after string) (store.List[T], error)) (all []T, err error) {
	for after, more := "", true; more; {
		list, err := part(after)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
		after, more = list.Next, list.Next != ""
	}
	return all, nil
}
