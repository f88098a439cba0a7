package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// eventText is an event as a stream has it.
func eventText(position int, state, label string) string {
	return fmt.Sprintf("id: p%d\ndata: {\"state\":\"%s\",\"labels\":[\"%s\"]}\n\n", position, state, label)
}

// TestFollowerReads takes whole entries, and nothing else that a stream has.
func TestFollowerReads(t *testing.T) {
	one, two := eventText(1, "CREATED", "label-3"), eventText(2, "ACTIVE", "label-3")
	long := eventText(3, "CREATED", "label-3\",\""+strings.Repeat("x", 2*streamBuffer))
	tests := []struct {
		name, stream string
		want         []followedEntry
		last         string
	}{
		{"nothing", "", nil, ""},
		{"a sign of life", ": following\nid: p1\n\n", nil, "p1"},
		{"entries", one + two, []followedEntry{{1, "CREATED"}, {2, "ACTIVE"}}, "p2"},
		{"a long entry", one + long, []followedEntry{{1, "CREATED"}, {3, "CREATED"}}, "p3"},
		{"an entry that is cut off", one + two[:len(two)-1], []followedEntry{{1, "CREATED"}}, "p1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := &follower{filter: followed{labels: []int{2, 3}}, arrival: make(chan struct{}, 1)}
			err := f.read(strings.NewReader(test.stream), func() bool { return true })
			if err != nil || !slices.Equal(f.entries, test.want) || string(f.last) != test.last {
				t.Errorf("read %v up to %q, %v, want %v up to %q", f.entries, f.last, err, test.want, test.last)
			}
		})
	}
	t.Run("an entry of another label", func(t *testing.T) {
		f := &follower{filter: followed{labels: []int{2}}, arrival: make(chan struct{}, 1)}
		if err := f.read(strings.NewReader(one), func() bool { return true }); err == nil {
			t.Error("read = nil, want an error")
		}
	})
}

// TestFollowersAnswerForEachEntry refuses what a follower may not miss, get again, or get
// before another.
func TestFollowersAnswerForEachEntry(t *testing.T) {
	created, active, delivered := followedEntry{1, "CREATED"}, followedEntry{4, "ACTIVE"}, followedEntry{7, "DELIVERED"}
	whole := []followedEntry{created, active, delivered}
	tests := []struct {
		name          string
		label, others []followedEntry
		want          string // of the error
	}{
		{"all", whole, []followedEntry{delivered}, ""},
		{"one is missing", whole[:2], nil, "got 2 entries of 3"},
		{"one came twice", []followedEntry{created, active, active}, nil, "entry 2 came twice"},
		{"one came early", []followedEntry{created, delivered, active}, []followedEntry{delivered}, "entry 2 came twice, or before"},
		{"one too many", append(slices.Clone(whole), followedEntry{9, "RETRY"}), []followedEntry{delivered}, "got 4 entries, 3 were written"},
		{"one is missing of another filter", whole, nil, "state=DELIVERED, got 0 entries of 1"},
		{"a wrong one of another filter", whole, []followedEntry{active}, "are not the 1 that match"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &followers{stop: func() {}, arrival: make(chan struct{}, 1)}
				for _, filter := range followedFilters("http://127.0.0.1:80/x") {
					f.all = append(f.all, &follower{filter: filter})
				}
				f.all[0].entries, f.all[followedLabels].entries = test.label, test.others
				for _, one := range f.all[followedLabels+1:] {
					one.entries = f.expected(one.filter)
				}
				err := f.drain(t.Context(), 3)
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("drain = %v, want %q", err, test.want)
				}
			})
		})
	}
}

func TestAddressWithLabel(t *testing.T) {
	if head := (address{label: labelOf(7)}).head("http://sink"); !strings.Contains(head, "\r\nUpstash-Label: label-7\r\n") {
		t.Errorf("a labelled message begins with %q", head)
	}
}
