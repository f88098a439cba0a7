package e2e

import (
	"strings"
	"testing"
	"time"

	"posthaste"
)

// at returns a time of the reports below, in milliseconds from their beginning.
func at(ms int64) time.Time { return time.UnixMilli(1_000_000 + ms) }

func entry(ms int64, id string, state posthaste.State) logEntry {
	kind := answerOK
	if id == "flaky" {
		kind = answerFlaky
	}
	return logEntry{Time: at(ms).UnixMilli(), MessageID: id, State: state, URL: "http://sink/" + kind + "/kill"}
}

// soundReport is one in which every promise was kept: a server died from 50 to
// 60, "late" was in flight then and was delivered again, "flaky" was retried.
func soundReport() *report {
	log := []logEntry{
		entry(10, "late", posthaste.StateCreated),
		entry(11, "flaky", posthaste.StateCreated),
		entry(12, "flaky", posthaste.StateActive),
		entry(20, "flaky", posthaste.StateError),
		entry(20, "flaky", posthaste.StateRetry),
		entry(40, "late", posthaste.StateActive),
		entry(70, "late", posthaste.StateActive),
		entry(71, "flaky", posthaste.StateActive),
		entry(80, "late", posthaste.StateDelivered),
		entry(81, "flaky", posthaste.StateDelivered),
	}
	return &report{
		acknowledged: map[string]bool{"late": true, "flaky": true},
		deaths:       []death{{at(50), at(60)}},
		log:          log,
		followed:     append([]logEntry(nil), log...),
		arrivals: map[string][]arrival{
			"late":  {arrived("late", 0, 0, at(41), 200), arrived("late", 0, 1, at(72), 200)},
			"flaky": {arrived("flaky", 0, 0, at(13), 503), arrived("flaky", 1, 1, at(73), 200)},
		},
	}
}

func arrived(messageID string, retried, generation int, at time.Time, status int) arrival {
	return arrival{messageID: messageID, retried: retried, generation: generation, at: at, status: status}
}

// TestReport spoils a sound report in every way that the kill test is to notice.
func TestReport(t *testing.T) {
	onceOnly(t)
	tests := []struct {
		name  string
		spoil func(*report)
		want  string // begins what is said; nothing if it is empty
	}{
		{"sound", func(*report) {}, ""},
		{"acknowledged and lost", func(r *report) { r.acknowledged["lost"] = true }, "lost was acknowledged and never delivered"},
		{"acknowledged and refused", func(r *report) { r.arrivals["flaky"] = r.arrivals["flaky"][:1] }, "flaky was acknowledged and never delivered"},
		{"out of order", func(r *report) { r.log[1].Time = at(9).UnixMilli() }, "log entry 1 has time"},
		{"an entry that vanished", func(r *report) { r.followed = append(r.followed, r.log[9]) }, "the log as it was followed differs"},
		{"an entry that was skipped", func(r *report) { r.followed = r.followed[1:] }, "the log as it was followed differs"},
		{"a life without its end", func(r *report) { r.drop(9) }, "the life of flaky is CREATED ACTIVE ERROR RETRY ACTIVE,"},
		{"a life without an attempt", func(r *report) { r.drop(5); r.drop(5) }, "the life of late is CREATED DELIVERED"},
		{"active twice without a death", func(r *report) { r.deaths = nil }, "late became active at"},
		{"arrived after it was settled", func(r *report) { r.arrivals["late"][1].at = at(81) }, "late arrived as retry 0 at"},
		{"arrived twice from one server", func(r *report) { r.arrivals["late"][1].generation = 0 }, "late arrived as retry 0 from server 0"},
		{"retried after a success", func(r *report) { r.arrivals["flaky"][0].status = 200 }, "flaky arrived as retry 1 from server 1"},
		{"arrived more often than logged", func(r *report) { r.arrivals["late"][1].retried = 1 }, "late arrived as retry 1, its log tells of 1"},
		{"arrived and not in the log", func(r *report) { r.arrivals["ghost"] = r.arrivals["late"][:1] }, "ghost arrived as retry 0, its log tells of 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := soundReport()
			test.spoil(r)
			got := strings.Join(r.problems().first, "\n")
			if test.want == "" && got != "" {
				t.Errorf("a sound report has problems:\n%s", got)
			}
			if !strings.Contains("\n"+got, "\n"+test.want) {
				t.Errorf("got:\n%s\nwant a line that begins with %q", got, test.want)
			}
		})
	}
}

// drop takes an entry out of the log, for everybody.
func (r *report) drop(i int) {
	r.log = append(r.log[:i:i], r.log[i+1:]...)
	r.followed = r.log
}
