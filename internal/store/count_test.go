package store

import (
	"testing"

	"posthaste"
)

// What was counted without a value may have any.
func TestMayHave(t *testing.T) {
	whole := Series{Host: "a.example", Path: "/x", Queue: "q", Labels: []string{"one"}}
	bare := Series{Host: "a.example", NoPath: true, Queue: "q", Labels: []string{"one"}}
	tests := []struct {
		name   string
		of     Series
		filter posthaste.Filter
		want   bool
	}{
		{"its path", whole, posthaste.Filter{Paths: []string{"/x"}}, true},
		{"another path", whole, posthaste.Filter{Paths: []string{"/y"}}, false},
		{"any path", bare, posthaste.Filter{Paths: []string{"/y"}}, true},
		{"a URL of any path", bare, posthaste.Filter{URLs: []string{"http://a.example/y"}}, true},
		{"a URL of another host", bare, posthaste.Filter{URLs: []string{"http://b.example/y"}}, false},
		{"another host, of the rest", Series{Rest: true}, posthaste.Filter{Hosts: []string{"b.example"}, Labels: []string{"two"}}, true},
		{"another queue", bare, posthaste.Filter{Queues: []string{"r"}}, false},
		{"another label", bare, posthaste.Filter{Labels: []string{"two"}}, false},
		{"a state, of the rest", Series{Rest: true}, posthaste.Filter{States: []posthaste.State{posthaste.StateCreated}}, false},
		{"the class of a status", whole, posthaste.Filter{Statuses: []int{404}}, true},
		{"another class", whole, posthaste.Filter{Statuses: []int{200, 503}}, false},
	}
	for _, test := range tests {
		c := Count{Series: test.of, State: posthaste.StateError, Class: 4}
		if got := c.MayHave(&test.filter); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
