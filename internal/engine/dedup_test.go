package engine_test

import (
	"net/http"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// TestDeduplication publishes something beside an earlier publication and asks
// whether it is taken for a repetition of that one (contract, messages 6.4 and
// U-62).
func TestDeduplication(t *testing.T) {
	earlier := func(change func(*engine.Publication)) engine.Publication {
		p := engine.Publication{
			Destination: "http://a.example/x",
			Body:        []byte("hi"),
			Settings:    posthaste.Settings{Header: http.Header{"Content-Type": {"text/plain"}, "X-A": {"1"}}},
		}
		change(&p)
		return p
	}
	byID := func(p *engine.Publication) { p.DeduplicationID = "d" }
	byContent := func(p *engine.Publication) { p.ContentBasedDeduplication = true }
	// content changes a publication that is told by its content.
	content := func(change func(*engine.Publication)) func(*engine.Publication) {
		return func(p *engine.Publication) {
			byContent(p)
			change(p)
		}
	}
	tests := []struct {
		name          string
		first, second func(*engine.Publication)
		repeated      bool
	}{
		{"the same id", byID, byID, true},
		{"another id", byID, func(p *engine.Publication) { p.DeduplicationID = "e" }, false},
		{"the same id for something else", byID, func(p *engine.Publication) {
			p.DeduplicationID, p.Destination, p.Body = "d", "http://b.example", nil
		}, true},
		{"an id beats the content", content(byID), byContent, false},
		{"a content that reads like an id", byContent, byID, false},
		{"no id at all", func(*engine.Publication) {}, func(*engine.Publication) {}, false},
		{"the same content", byContent, byContent, true},
		{"another destination", byContent, content(func(p *engine.Publication) { p.Destination += "?" }), false},
		{"another body", byContent, content(func(p *engine.Publication) { p.Body = []byte("ho") }), false},
		{"another content type", byContent, content(func(p *engine.Publication) {
			p.Header = http.Header{"Content-Type": {"text/html"}, "X-A": {"1"}}
		}), false},
		{"another forwarded header", byContent, content(func(p *engine.Publication) {
			p.Header = http.Header{"Content-Type": {"text/plain"}, "X-A": {"2"}}
		}), false},
		{"another method", byContent, content(func(p *engine.Publication) { p.Method = http.MethodPut }), true},
		{"other settings", byContent, content(func(p *engine.Publication) {
			p.Delay, p.Labels, p.Queue = time.Hour, []string{"l"}, "q"
		}), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, answers(ok), engine.Options{}, func(w *world) {
				first := w.publish(earlier(test.first))
				second := w.publish(earlier(test.second))
				if repeated := second == first; repeated != test.repeated {
					t.Errorf("taken for a repetition: %t, want %t", repeated, test.repeated)
				}
			})
		})
	}
}

// TestDeduplicationOfAnotherUser checks whose ids are compared (contract, U-62).
func TestDeduplicationOfAnotherUser(t *testing.T) {
	inWorld(t, answers(ok), engine.Options{}, func(w *world) {
		p := engine.Publication{Destination: "http://a.example/x", DeduplicationID: "d"}
		first := w.publish(p)
		receipts, err := w.Publish(w.t.Context(), "bob", p)
		if err != nil || receipts[0].Deduplicated || receipts[0].MessageID == first {
			t.Errorf("receipt %+v, %v; want a message of bob's own", receipts, err)
		}
	})
}

// TestDeduplicationWindow checks how long a publication is remembered: from when
// it was accepted, neither prolonged by repetitions nor cut short by its end
// (contract, messages 6.4 and U-62).
func TestDeduplicationWindow(t *testing.T) {
	inWorld(t, answers(ok), engine.Options{}, func(w *world) {
		p := engine.Publication{DeduplicationID: "d"}
		first := w.publish(p)
		for _, wait := range []time.Duration{store.DedupWindow / 2, store.DedupWindow/2 - time.Millisecond} {
			w.pass(wait)
			if again := w.publish(p); again != first {
				t.Errorf("forgotten after %s", time.Since(w.start))
			}
		}
		w.pass(time.Millisecond)
		if again := w.publish(p); again == first {
			t.Errorf("remembered after %s", time.Since(w.start))
		}
	})
}
