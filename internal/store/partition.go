package store

import (
	"context"
	"strconv"
	"strings"
	"time"

	"posthaste"
)

// Divisible is a backend whose users package partition can divide.
type Divisible interface {
	Backend

	// UpdateSeveral is Update for several users, in the order of their names: change gets a Tx of each.
	UpdateSeveral(ctx context.Context, now time.Time, scopes []Scope, change func([]Tx) error) error
}

// Partitions is in how many parts each user is divided: a power of two, posthaste.Slots at most. 0 means
// one. To a backend a partition is a user of its own.
type Partitions int

// partitionMark separates a user from a partition; no user id has it.
const partitionMark = "\x01"

// Of returns the partition that has a slot of a user: the user itself, or its name with the first slot of
// the partition. So to divide partitions again changes the names of upper halves alone.
func (p Partitions) Of(user string, slot posthaste.Slot) string {
	first := int(slot) &^ (posthaste.Slots/p.count() - 1)
	if first == 0 || user == "" {
		return user
	}
	return user + partitionMark + strconv.Itoa(first)
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

func (p Partitions) count() int { return max(1, int(p)) }

// UserOf returns the user of a partition.
func UserOf(partition string) string {
	user, _, _ := strings.Cut(partition, partitionMark)
	return user
}
