package flow_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"posthaste/internal/flow"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

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
			if got := memory.Admits(noon, test.next.lane[:1], test.next.lane, test.next.size); got != test.want {
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
			if memory.Admits(noon, user(next), next.lane, next.size) {
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

// TestMemoryIsKept has a lane wait for memory of which others always have some: after a few
// seconds they get no more before it does.
func TestMemoryIsKept(t *testing.T) {
	const most = 100 * flow.SmallMessage
	const all, tooMuch, some, small = most, 2 * most, most / 10, flow.SmallMessage
	type ask struct {
		after, until int    // seconds; it is asked every five, but for the last
		lane         string // its user is the first letter
		size         int
		want         bool
	}
	tests := []struct {
		name  string
		taken []string // lanes that have some
		asks  []ask
	}{
		{"others go on at first", []string{"b"}, []ask{
			{0, 0, "a", tooMuch, false}, {2, 2, "c", some, true},
		}},
		{"later they wait", []string{"b"}, []ask{
			{0, 3, "a", tooMuch, false}, {3, 3, "c", some, false},
		}},
		{"small ones never do", []string{"b"}, []ask{
			{0, 3, "a", tooMuch, false}, {3, 3, "c", small, true},
		}},
		{"one that fits when it is alone", []string{"b"}, []ask{
			{0, 3, "a", all, false}, {3, 3, "c", some, false},
		}},
		{"others wait while nothing is taken", nil, []ask{
			{0, 0, "b", all, true}, {0, 3, "a", tooMuch, false}, {4, 4, "-b", all, true},
			{4, 4, "c", some, false}, {4, 4, "a", tooMuch, true},
		}},
		{"the one that has waited longest is the first", []string{"b"}, []ask{
			{0, 0, "a", tooMuch, false}, {1, 5, "c", tooMuch, false}, {5, 5, "-b", some, true},
			{5, 5, "c", tooMuch, false}, {5, 5, "a", tooMuch, true},
		}},
		{"a lane that has some does not wait", []string{"a", "b"}, []ask{
			{0, 5, "a", tooMuch, false}, {5, 5, "c", some, true},
		}},
		{"nobody waits but its user, while that has some", []string{"a2", "b"}, []ask{
			{0, 5, "a", tooMuch, false}, {5, 5, "c", some, true}, {5, 5, "a3", some, false},
		}},
		{"who does not ask again does not wait", []string{"b"}, []ask{
			{0, 3, "a", tooMuch, false}, {13, 13, "c", some, false}, {14, 14, "c", some, true},
		}},
		{"others wait for a minute, and not for the next", []string{"b"}, []ask{
			{0, 62, "a", tooMuch, false}, {62, 62, "c", some, false}, {63, 63, "c", some, true},
			{63, 122, "a", tooMuch, false}, {122, 122, "d", some, true},
			{126, 126, "a", tooMuch, false}, {126, 126, "e", some, false},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			memory := flow.NewMemory[string](most)
			for _, lane := range test.taken {
				memory.Take(lane[:1], lane, some)
			}
			for _, a := range test.asks {
				if lane, gives := strings.CutPrefix(a.lane, "-"); gives {
					memory.Give(lane[:1], lane, a.size)
					continue
				}
				for at := a.after; ; at = min(at+5, a.until) {
					tried := memory.Clone() // as a claim that may come to nothing
					if got := tried.Admits(noon.Add(time.Duration(at)*time.Second), a.lane[:1], a.lane, a.size); got != a.want {
						t.Fatalf("after %d s: Admits(%s, %d bytes) = %t, want %t", at, a.lane, a.size, got, a.want)
					}
					if at == a.until {
						break
					}
				}
				if a.want {
					memory.Take(a.lane[:1], a.lane, a.size)
				}
			}
		})
	}
}
