package postgres

import (
	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// prefetch is what a change will need. It is read with the first round trip, for all changes
// at once; anything else is read on demand.
type prefetch struct {
	live     []messageOf
	messages []messageOf
	records  []recordOf
}

// add adds what another change will need.
func (w *prefetch) add(other prefetch) {
	w.live = append(w.live, other.live...)
	w.messages = append(w.messages, other.messages...)
	w.records = append(w.records, other.records...)
}

// flowKeyOf names the record of a flow-control key.
func flowKeyOf(user, key string) recordOf { return recordOf{user, store.ItemFlowKey, key} }

// queuePrefetch queues the reads of all changes, and takes positions for their events.
func (t *userTx) queuePrefetch(batch *pgx.Batch, changes []*change) {
	var all prefetch
	var logs bool
	lowest := changes[0].now
	for _, c := range changes {
		all.add(c.prefetch)
		logs = logs || !c.now.IsZero()
		if c.now.After(lowest) {
			lowest = c.now
		}
	}
	if logs {
		t.takePositions(batch, positionsAtOnce, posthaste.FirstPosition(lowest))
	}
	t.queue(batch, all)
}
