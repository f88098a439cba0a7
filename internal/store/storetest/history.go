package storetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// makeHistory fills a store with messages of two users that differ in every
// field a filter can ask for, and lets them live: a log of some hundred events
// over three days.
func (tr *trial) makeHistory() {
	tr.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		tr.acceptMany(rng.IntN(4)+1, variety(rng))
		tr.acceptMany(1, variety(rng), ownedBy(anna))
		if ids := tr.makes.ids[ann]; rng.IntN(3) == 0 {
			tr.ok(errorOf(tr.store.Cancel(tr.Context(), tr.now, ann, ids[len(ids)-1:], nil)))
		}
		claims, _ := tr.claim(plenty)
		for _, claim := range claims {
			tr.settle(anySettlement(rng, tr.now, claim))
		}
		tr.wait(time.Duration(rng.IntN(int(12 * time.Hour))).Truncate(time.Millisecond))
	}
	tr.settleDown(ann)
	tr.settleDown(anna)
}

// variety gives each message it is applied to other values, of few, so that
// messages have some in common.
func variety(rng *rand.Rand) func(*posthaste.Message) {
	pick := func(format string) string {
		if rng.IntN(3) == 0 {
			return "" // has none
		}
		return fmt.Sprintf(format, rng.IntN(3))
	}
	return func(m *posthaste.Message) {
		port := []string{"", ":8080"}[rng.IntN(2)]
		m.URL = fmt.Sprintf("http://Host%d.example%s/path/%d?query=%d", rng.IntN(2), port, rng.IntN(2), rng.IntN(2))
		m.CallerIP = pick("192.0.2.%d")
		m.Queue = pick("queue-%d")
		m.URLGroup = pick("group-%d")
		m.ScheduleID = pick("schedule-%d")
		m.FlowControl.Key = pick("flow-%d")
		for range rng.IntN(3) {
			m.Labels = append(m.Labels, fmt.Sprintf("label-%d", rng.IntN(3)))
		}
	}
}

func anySettlement(rng *rand.Rand, now time.Time, claim store.Claim) store.Settlement {
	outcome := unreachable
	if rng.IntN(2) == 0 {
		outcome = refused
	}
	switch rng.IntN(3) {
	case 0:
		return store.Delivered(claim)
	case 1:
		return store.Failed(claim, outcome)
	default:
		return store.RetryAt(claim, now.Add(time.Duration(rng.IntN(100))*time.Minute), outcome)
	}
}

// filterField is a field of a filter of events. ask makes a filter ask for what the
// entry has there; it returns false if the entry has nothing.
type filterField struct {
	name string
	ask  func(f *posthaste.Filter, e store.Entry) bool
}

var filterFields = []filterField{
	{"MessageIDs", func(f *posthaste.Filter, e store.Entry) bool {
		f.MessageIDs = append(f.MessageIDs, e.MessageID)
		return true
	}},
	{"States", func(f *posthaste.Filter, e store.Entry) bool {
		f.States = append(f.States, e.State)
		return true
	}},
	{"URLs", func(f *posthaste.Filter, e store.Entry) bool { return askText(&f.URLs, e.Message.URL) }},
	{"URLGroups", func(f *posthaste.Filter, e store.Entry) bool { return askText(&f.URLGroups, e.Message.URLGroup) }},
	{"ScheduleIDs", func(f *posthaste.Filter, e store.Entry) bool { return askText(&f.ScheduleIDs, e.Message.ScheduleID) }},
	{"Queues", func(f *posthaste.Filter, e store.Entry) bool { return askText(&f.Queues, e.Message.Queue) }},
	{"Labels", func(f *posthaste.Filter, e store.Entry) bool {
		return len(e.Message.Labels) > 0 && askText(&f.Labels, e.Message.Labels[len(e.Message.Labels)-1])
	}},
	{"Hosts", func(f *posthaste.Filter, e store.Entry) bool {
		host, _ := posthaste.HostAndPath(e.Message.URL)
		return askText(&f.Hosts, host)
	}},
	{"Hosts without port", func(f *posthaste.Filter, e store.Entry) bool {
		host, _ := posthaste.HostAndPath(e.Message.URL)
		return askText(&f.Hosts, "HOST"+posthaste.HostWithoutPort(host)[len("host"):])
	}},
	{"Paths", func(f *posthaste.Filter, e store.Entry) bool {
		_, path := posthaste.HostAndPath(e.Message.URL)
		return askText(&f.Paths, path)
	}},
	{"CallerIPs", func(f *posthaste.Filter, e store.Entry) bool { return askText(&f.CallerIPs, e.Message.CallerIP) }},
	{"FlowKeys", func(f *posthaste.Filter, e store.Entry) bool { return askText(&f.FlowKeys, e.Message.FlowControl.Key) }},
}

func askText(values *[]string, value string) bool {
	if value == "" {
		return false
	}
	*values = append(*values, value)
	return true
}

// nobodyHas makes, for each field, a filter for a value that no message has.
var nobodyHas = map[string]posthaste.Filter{
	"MessageIDs":  {MessageIDs: []posthaste.MessageID{{1, 2, 3}}},
	"States":      {States: []posthaste.State{"LOST"}},
	"URLs":        {URLs: []string{"http://host1.example/path/1"}},
	"URLGroups":   {URLGroups: []string{"group-"}},
	"ScheduleIDs": {ScheduleIDs: []string{"schedule-11"}},
	"Queues":      {Queues: []string{"Queue-1"}},
	"Labels":      {Labels: []string{"label-1,label-2"}},
	"Hosts":       {Hosts: []string{"host1.example:80"}},
	"Paths":       {Paths: []string{"/path/1?query=1"}},
	"CallerIPs":   {CallerIPs: []string{"192.0.2"}},
	"FlowKeys":    {FlowKeys: []string{"flow-1 "}},
}
