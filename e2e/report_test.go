package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"posthaste"
)

// report is what is known after a server was killed many times.
type report struct {
	acknowledged map[string]bool      // ids of the messages that publishers were promised
	arrivals     map[string][]arrival // by message, each in order
	deaths       []death
	followed     []logEntry // as the follower read them, through all deaths
	log          []logEntry // as it is at the end
}

// check fails the test unless every promise was kept.
func (r *report) check(t *testing.T) {
	t.Helper()
	r.problems().report(t)
	t.Logf("%d deaths, %d messages acknowledged, %d log entries, %d arrivals, %d of them repeated",
		len(r.deaths), len(r.acknowledged), len(r.log), r.countArrivals(), r.countRepeated())
}

// problems returns the promises that were not kept.
func (r *report) problems() *problems {
	lives := byMessage(r.log)
	wrong := &problems{}
	r.checkDelivered(wrong)
	r.checkOrder(wrong)
	r.checkComplete(wrong, lives)
	r.checkArrivals(wrong, lives)
	return wrong
}

// checkDelivered: every acknowledged message is delivered at least once.
func (r *report) checkDelivered(wrong *problems) {
	for id := range r.acknowledged {
		if !slices.ContainsFunc(r.arrivals[id], func(a arrival) bool { return a.status == 200 }) {
			wrong.add("%s was acknowledged and never delivered", id)
		}
	}
}

// checkOrder: the log is in order of time, and a reader who followed it through
// every death has read exactly what it holds.
func (r *report) checkOrder(wrong *problems) {
	for i := 1; i < len(r.log); i++ {
		if r.log[i].Time < r.log[i-1].Time {
			wrong.add("log entry %d has time %d, the one before has %d", i, r.log[i].Time, r.log[i-1].Time)
		}
	}
	if difference := firstDifference(r.followed, r.log); difference != "" {
		wrong.add("the log as it was followed differs from the log at the end: %s", difference)
	}
}

// checkComplete: the log has the whole life of every message, and a second
// ACTIVE for the same attempt only if the server died between the two.
func (r *report) checkComplete(wrong *problems, lives map[string][]logEntry) {
	for id := range r.acknowledged {
		if lives[id] == nil {
			wrong.add("%s was acknowledged and is not in the log", id)
		}
	}
	for id, life := range lives {
		if got, want := once(life), wholeLife(life[0].URL); got != want {
			wrong.add("the life of %s is %s, want %s%s", id, got, want, errorsOf(life))
		}
		for i, entry := range life[1:] {
			again := entry.State == posthaste.StateActive && life[i].State == posthaste.StateActive
			if again && !r.diedBetween(life[i], entry) {
				wrong.add("%s became active at %d and again at %d, and no server died between", id, life[i].Time, entry.Time)
			}
		}
	}
}

// checkArrivals: an attempt arrives again only from a later server, if it was in
// flight when the earlier one died, which is to say that the log had not settled
// it by then.
func (r *report) checkArrivals(wrong *problems, lives map[string][]logEntry) {
	for id, arrivals := range r.arrivals {
		settled := settlements(lives[id])
		for i, a := range arrivals {
			if a.retried >= len(settled) {
				wrong.add("%s arrived as retry %d, its log tells of %d attempts", id, a.retried, len(settled))
			} else if a.at.UnixMilli() > settled[a.retried] {
				wrong.add("%s arrived as retry %d at %d, after the log had settled that at %d", id, a.retried, a.at.UnixMilli(), settled[a.retried])
			}
			if i > 0 && !mayFollow(arrivals[i-1], a) {
				wrong.add("%s arrived as retry %d from server %d after it had as retry %d from server %d",
					id, a.retried, a.generation, arrivals[i-1].retried, arrivals[i-1].generation)
			}
		}
	}
}

// mayFollow reports whether an arrival is the retry after another one, or the
// same attempt made once more by a later server.
func mayFollow(earlier, later arrival) bool {
	if later.retried == earlier.retried {
		return later.generation > earlier.generation
	}
	return later.retried == earlier.retried+1 && earlier.status != 200
}

func (r *report) diedBetween(a, b logEntry) bool {
	return slices.ContainsFunc(r.deaths, func(d death) bool {
		return a.Time <= d.to.UnixMilli() && d.from.UnixMilli() <= b.Time
	})
}

func (r *report) countArrivals() (count int) {
	for _, arrivals := range r.arrivals {
		count += len(arrivals)
	}
	return count
}

func (r *report) countRepeated() (count int) {
	for _, arrivals := range r.arrivals {
		for i := 1; i < len(arrivals); i++ {
			if arrivals[i].retried == arrivals[i-1].retried {
				count++
			}
		}
	}
	return count
}

// settlements returns when each attempt of a life was settled, in order.
func settlements(life []logEntry) (times []int64) {
	for _, entry := range life {
		if entry.State == posthaste.StateError || entry.State == posthaste.StateDelivered {
			times = append(times, entry.Time)
		}
	}
	return times
}

// wholeLife returns the states through which a message to a URL of the sink
// goes.
func wholeLife(url string) string {
	if strings.Contains(url, "/"+answerFlaky+"/") {
		return "CREATED ACTIVE ERROR RETRY ACTIVE DELIVERED"
	}
	return "CREATED ACTIVE DELIVERED"
}

// errorsOf returns why the attempts of a life failed.
func errorsOf(life []logEntry) (text string) {
	for _, entry := range life {
		if entry.State == posthaste.StateError {
			text += "; " + entry.Error
		}
	}
	return text
}

// once returns the states of a life, with an ACTIVE that follows an ACTIVE left
// out.
func once(life []logEntry) string {
	var states []string
	for i, entry := range life {
		if i == 0 || entry.State != posthaste.StateActive || life[i-1].State != posthaste.StateActive {
			states = append(states, string(entry.State))
		}
	}
	return strings.Join(states, " ")
}

func byMessage(log []logEntry) map[string][]logEntry {
	lives := make(map[string][]logEntry)
	for _, entry := range log {
		lives[entry.MessageID] = append(lives[entry.MessageID], entry)
	}
	return lives
}

// firstDifference says where two sequences part, or nothing if they do not.
func firstDifference(got, want []logEntry) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("entry %d of %d is %v, want %v", i, len(got), got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d entries, want %d", len(got), len(want))
	}
	return ""
}

// problems collects what is wrong and shows the first few: a fault of the server
// tends to show in thousands of messages.
type problems struct {
	first []string
	count int
}

func (p *problems) add(format string, args ...any) {
	const shown = 10
	if p.count++; p.count <= shown {
		p.first = append(p.first, fmt.Sprintf(format, args...))
	}
}

func (p *problems) report(t *testing.T) {
	t.Helper()
	if p.count > 0 {
		t.Errorf("%d problems, the first ones:\n%s", p.count, strings.Join(p.first, "\n"))
	}
}
