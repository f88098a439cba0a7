package postgres

import (
	"fmt"
	"testing"

	"posthaste"
	"posthaste/internal/store"
)

// However many nodes there are, each shard is in one share, and shares are as even as they can be.
func TestShares(t *testing.T) {
	for nodes := range 2 * shards {
		owners := map[int16]int{}
		for before := range max(1, nodes) {
			share := placement{}.shareOf(before, nodes)
			if size := int(share.end - share.first); nodes > 0 && size != shards/nodes && size != shards/nodes+1 {
				t.Errorf("node %d of %d has %d shards", before, nodes, size)
			}
			for shard := range int16(shards) {
				if share.has(shard) {
					owners[shard]++
				}
			}
		}
		for shard := range int16(shards) {
			if owners[shard] != 1 {
				t.Errorf("shard %d is in the shares of %d of %d nodes", shard, owners[shard], nodes)
			}
		}
	}
}

// The partitions of each user are divided evenly among nodes. A node puts what may lie anywhere into its
// share, what lies there anyway stays, and all of its partitions are used.
func TestOwnSlots(t *testing.T) {
	for _, partitions := range []store.Partitions{1, 2, 4, 16, 64} {
		for nodes := 1; nodes <= 5; nodes++ {
			for user := range 20 {
				user := fmt.Sprint("user", user)
				for before := range nodes {
					share := placement{}.shareOf(before, nodes)
					s := &Store{}
					s.divisions.replace(nil, store.Division{Partitions: partitions})
					s.share.Store(&share)
					var mine int
					for _, partition := range partitions.All(user) {
						if share.has(shardOf(partition)) {
							mine++
						}
					}
					if least, most := int(partitions)/nodes, int(partitions)/nodes+1; mine < least || mine > most {
						t.Errorf("node %d of %d has %d of %d partitions, want %d or %d", before, nodes, mine, partitions, least, most)
					}
					used := map[string]bool{}
					for slot := range posthaste.Slot(posthaste.Slots) {
						got := s.OwnSlot(user, slot)
						partition := partitions.Of(user, got)
						if used[partition] = true; mine > 0 && !share.has(shardOf(partition)) {
							t.Fatalf("node %d of %d puts slot %d into %d, which it does not serve", before, nodes, slot, got)
						}
						if at := shardOf(partitions.Of(user, slot)); (mine == 0 || share.has(at)) && got != slot {
							t.Fatalf("node %d of %d puts slot %d into %d for no reason", before, nodes, slot, got)
						}
					}
					if mine > 0 && len(used) != mine {
						t.Errorf("node %d of %d uses %d of its %d partitions", before, nodes, len(used), mine)
					}
				}
			}
		}
	}
}
