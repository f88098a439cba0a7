package lsm

import (
	"testing"

	"posthaste"
)

// BenchmarkScheduler adds, claims and settles messages, of which a thousand wait.
func BenchmarkScheduler(b *testing.B) {
	for name, of := range map[string]struct {
		lane posthaste.Lane
		key  string
	}{
		"host":  {posthaste.Lane{Kind: posthaste.LaneHost, Name: "a.example"}, ""},
		"key":   {posthaste.Lane{Kind: posthaste.LaneFlow, Name: "key"}, "key"},
		"queue": {posthaste.Lane{Kind: posthaste.LaneQueue, Name: "queue"}, ""},
	} {
		b.Run(name, func(b *testing.B) {
			s, order := newScheduler(nothingOnDisk{}, 0), posthaste.Position(0)
			add := func() {
				order++
				it := &item{ticket: ticket{order: order}, waiting: waiting{flowKey: of.key}}
				it.id[0], it.id[1], it.id[2], it.id[3] = byte(order>>24), byte(order>>16), byte(order>>8), byte(order)
				s.add(laneID{"ann", of.lane}, it)
			}
			for range 1000 {
				add()
			}
			b.ReportAllocs()
			for b.Loop() {
				add()
				leases, _, err := s.claim(lineNow, 8)
				if err != nil || len(leases) == 0 {
					b.Fatal(len(leases), err)
				}
				for _, held := range leases {
					s.endSettle(held, nil)
				}
			}
		})
	}
}
