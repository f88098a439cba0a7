package lsm

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// TestSketch asks the sketches of messages for what finds them, and for what finds one of
// them only.
func TestSketch(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const messages = 200
	var own [messages]store.EventFilter
	var sketches [messages]sketch
	for n := range messages {
		id, err := posthaste.NewMessageID(noon, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		m := &posthaste.Message{ID: id, URL: fmt.Sprintf("https://host-%d.example:8443/%d", n, n)}
		m.Labels = []string{fmt.Sprintf("label-%d", n), "all"}
		m.Queue = fmt.Sprintf("queue-%d", n)
		sketches[n] = sketchOf(appendTerms(nil, m, posthaste.StateActive))
		own[n] = store.EventFilter{
			MessageIDs: []posthaste.MessageID{id},
			Labels:     []string{"none", m.Labels[0]},
			Queues:     []string{m.Queue},
			Hosts:      []string{fmt.Sprintf("HOST-%d.example", n)},
		}
	}
	passed := 0
	for n, filter := range own {
		wanted := each(filterTerms(&filter), sketchOf)
		if !sketches[n].passesAll(wanted) {
			t.Errorf("%+v does not find its own message", filter)
		}
		for other := range sketches {
			if sketches[other].passesAll(wanted) {
				passed++
			}
		}
		if label := (store.EventFilter{Labels: []string{"all"}}); !sketches[n].passesAll(each(filterTerms(&label), sketchOf)) {
			t.Errorf("the label of all does not find message %d", n)
		}
	}
	// Each of nine terms has one of 64 bits: of four lists all pass by chance once in a thousand.
	if passed > messages+messages*messages/100 {
		t.Errorf("%d of %d pass, want few more than the %d that match", passed, messages*messages, messages)
	}
}
