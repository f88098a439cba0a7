package store

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste"
)

// Divisible is a backend whose users package partition can divide.
type Divisible interface {
	Backend

	// Division is how users are divided, or are being divided.
	Division() Division

	// Reading is Division for a read, until done is called with its error: until then nothing is moved from
	// where the read looks.
	Reading(ctx context.Context) (d Division, done func(*error), err error)

	// DivisionOf returns how a user is divided, from memory or, with reread, from the store. An Update whose
	// Scope assumes another division fails with ErrDivided.
	DivisionOf(ctx context.Context, user string, reread bool) (Division, error)

	// UpdateSeveral is Update for several users, in the order of their names: change gets a Tx of each.
	UpdateSeveral(ctx context.Context, now time.Time, scopes []Scope, change func([]Tx) error) error

	// WatchSeveral is Watch for several users: their logs are closed up to end, and the channel of each
	// closes when its log may have grown.
	WatchSeveral(ctx context.Context, users []string) (end posthaste.Position, grown []<-chan struct{}, err error)

	// CloseLogs sees to it that what is committed later for some users has higher positions than end: the
	// last position of any of them when it began, or upTo if that is less. It is lower if a transaction
	// that goes on prevents that.
	CloseLogs(ctx context.Context, users []string, upTo posthaste.Position) (end posthaste.Position, err error)
}

// Partitions is in how many parts each user is divided: a power of two, posthaste.Slots at most. 0 means
// one. To a backend a partition is a user of its own.
type Partitions int

// Division is in how many partitions each user is divided, and was before, in that order. What has ended
// stays in the partition where it was: the log, messages, and how they ended.
type Division struct {
	Partitions
	Before []Partitions

	// Growing says that some users may still be divided as before, and what lives is being moved from a
	// partition to one behind it. So who reads partitions in their order misses nothing.
	Growing bool
}

// Whole reports whether users are not divided.
func (d Division) Whole() bool { return d.Partitions <= 1 }

// Earlier returns the first slots of other partitions that had a slot before, the latest first.
func (d Division) Earlier(slot posthaste.Slot) (firsts []posthaste.Slot) {
	for _, p := range slices.Backward(d.Before) {
		first := p.first(slot)
		if first != d.first(slot) && !slices.Contains(firsts, first) {
			firsts = append(firsts, first)
		}
	}
	return firsts
}

// Holders returns the partitions of a user that may hold a message, the most likely one first.
func (d Division) Holders(user string, id posthaste.MessageID) []string {
	all := []string{d.Of(user, id.Slot())}
	for _, slot := range d.Earlier(id.Slot()) {
		all = append(all, d.Of(user, slot))
	}
	return all
}

// PartitionMark separates a user from a partition; no user id has it.
const PartitionMark = "\x01"

// Of returns the partition that has a slot of a user: the user itself, or its name with the first slot of
// the partition. So to divide partitions again changes the names of upper halves alone.
func (p Partitions) Of(user string, slot posthaste.Slot) string {
	first := p.first(slot)
	if first == 0 || user == "" {
		return user
	}
	return user + PartitionMark + strconv.Itoa(int(first))
}

// first returns the first slot of the partition that has a slot.
func (p Partitions) first(slot posthaste.Slot) posthaste.Slot {
	return slot &^ posthaste.Slot(posthaste.Slots/p.count()-1)
}

// Number returns which of the partitions has a slot, from 0.
func (p Partitions) Number(slot posthaste.Slot) int { return int(slot) * p.count() / posthaste.Slots }

// All returns the partitions of a user in order.
func (p Partitions) All(user string) []string {
	all := make([]string, p.count())
	for i := range all {
		all[i] = p.Of(user, posthaste.Slot(i*posthaste.Slots/p.count()))
	}
	return all
}

// KeyHome returns the partition that has a flow-control key, of the user of another partition.
func (p Partitions) KeyHome(partition, key string) string {
	if p <= 1 {
		return partition
	}
	return p.Of(UserOf(partition), posthaste.Lane{Kind: posthaste.LaneFlow, Name: key}.Slot())
}

func (p Partitions) count() int { return max(1, int(p)) }

// UserOf returns the user of a partition.
func UserOf(partition string) string {
	user, _, _ := strings.Cut(partition, PartitionMark)
	return user
}

// FirstSlot returns the first slot of a partition.
func FirstSlot(partition string) posthaste.Slot {
	_, first, _ := strings.Cut(partition, PartitionMark)
	slot, _ := strconv.Atoi(first)
	return posthaste.Slot(slot)
}

// Slot returns the slot of a record: that of the name it is kept under, of the message, the run or the
// event that its key names, or any that the key always has.
func (k RecordKey) Slot() posthaste.Slot {
	at := min(7, len(k.Key)-1) // most keys begin with a position
	switch k.Kind {
	case ItemSecret:
		return 0
	case ItemQueue:
		return posthaste.Lane{Kind: posthaste.LaneQueue, Name: string(k.Key)}.Slot()
	case ItemFlowKey:
		return posthaste.Lane{Kind: posthaste.LaneFlow, Name: string(k.Key)}.Slot()
	case ItemURLGroup, ItemSchedule, ItemAction:
		return posthaste.SlotOf(string(k.Key))
	case ItemSubmission, ItemResponse: // after the window a hash
		at = 4
	case ItemLatestRun, ItemTopic: // begins with a hash
		at = 0
	case ItemFailedRunID, ItemMessage: // ends with a position; is an id
		at = len(k.Key) - 1
	}
	if at < 0 || at >= len(k.Key) {
		return 0 // it is damaged
	}
	return posthaste.Slot(k.Key[at] % posthaste.Slots)
}
