package lanes

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
			s, order := New(nothingOnDisk{}, 0), posthaste.Position(0)
			add := func() {
				order++
				it := &Item{Spot: Spot{Order: order}, Waiting: Waiting{FlowKey: of.key}}
				it.ID[0], it.ID[1], it.ID[2], it.ID[3] = byte(order>>24), byte(order>>16), byte(order>>8), byte(order)
				s.Add(ID{"ann", of.lane}, it)
			}
			for range 1000 {
				add()
			}
			b.ReportAllocs()
			for b.Loop() {
				add()
				leases, _, err := s.Claim(lineNow, 8)
				if err != nil || len(leases) == 0 {
					b.Fatal(len(leases), err)
				}
				for _, held := range leases {
					s.EndSettle(held, nil)
				}
			}
		})
	}
}
