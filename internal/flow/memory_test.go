package flow_test

import (
	"testing"

	"pgregory.net/rapid"

	"posthaste/internal/flow"
)

func TestMemory(t *testing.T) {
	const most = 100 * flow.SmallMessage
	type message struct {
		lane string // its user is the first letter
		size int
	}
	tests := []struct {
		name  string
		taken []message
		next  message
		want  bool
	}{
		{"the first", nil, message{"a", most}, true},
		{"one that is larger than all there is", nil, message{"a", 2 * most}, true},
		{"one that is too large beside another", []message{{"a", most / 2}}, message{"b", most}, false},
		{"one of another lane that fits", []message{{"a", most / 2}}, message{"b", most / 2}, true},
		{"a second of a lane", []message{{"a", most / 20}}, message{"a", most / 20}, true},
		{"more than an eighth of what is free", []message{{"a", most / 20}, {"a", most / 20}}, message{"a", most / 20}, false},
		{"a small one when nothing is left", []message{{"a", most}}, message{"a", flow.SmallMessage}, true},
		{"a large one when nothing is left", []message{{"a", most}}, message{"b", flow.SmallMessage + 1}, false},
		{"more than three times what is free, of a user", []message{{"a1", most / 2}}, message{"a2", most/4 + 1}, false},
		{"three times what is free, of a user", []message{{"a1", most / 2}}, message{"a2", most / 4}, true},
		{"all that is free, of a user who has nothing", []message{{"a1", most / 2}, {"a2", most / 4}}, message{"b", most / 4}, true},
		{"any after small ones", []message{{"a", flow.SmallMessage}}, message{"b", 2 * most}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			memory := flow.NewMemory[string](most)
			for _, m := range test.taken {
				memory.Take(m.lane[:1], m.lane, m.size)
			}
			if got := memory.Admits(test.next.lane[:1], test.next.lane, test.next.size); got != test.want {
				t.Errorf("Admits = %t, want %t", got, test.want)
			}
		})
	}
}

// TestMemoryIsBounded takes and gives back by chance: what is large is never more than
// there is, unless it is one message, and all of it can be had again.
func TestMemoryIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 50 * flow.SmallMessage
		type message struct{ lane, size int }
		user := func(m message) string { return string(rune('a' + m.lane%2)) }
		memory := flow.NewMemory[int](most)
		var inFlight []message
		large := func() (n int) {
			for _, m := range inFlight {
				if m.size > flow.SmallMessage {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			next := message{rapid.IntRange(0, 5).Draw(t, "lane"), rapid.IntRange(0, 2*most).Draw(t, "size")}
			if memory.Admits(user(next), next.lane, next.size) {
				memory.Take(user(next), next.lane, next.size)
				inFlight = append(inFlight, next)
			} else if next.size <= flow.SmallMessage {
				t.Fatal("a small message is held back")
			}
			if memory.Taken() > most && large() > 1 {
				t.Fatalf("%d large messages take %d of %d bytes", large(), memory.Taken(), most)
			}
			for len(inFlight) > 0 && rapid.Bool().Draw(t, "give") {
				memory.Give(user(inFlight[0]), inFlight[0].lane, inFlight[0].size)
				inFlight = inFlight[1:]
			}
		}
		for _, m := range inFlight {
			memory.Give(user(m), m.lane, m.size)
		}
		if memory.Taken() != 0 {
			t.Fatalf("%d bytes are taken by nothing", memory.Taken())
		}
	})
}
