package posthaste

import "crypto/sha256"

// Slots is how many slots a user has. Partitions are ranges of slots, so what is in a slot stays
// together however many partitions there are.
const Slots = 1 << slotBits

const slotBits = 6

// Slot is the part of a user's data that something belongs to. The ids of messages and the positions
// of events end in it.
type Slot uint8

// SlotOf returns the slot of what has a name or a key.
func SlotOf(name string) Slot { return Slot(sha256.Sum256([]byte(name))[0] % Slots) }

// Slot returns the slot of the lane. All messages of a queue or under a flow-control key must be in it,
// those of a host need not.
func (l Lane) Slot() Slot { return SlotOf(string(l.Kind) + l.Name) }

// Slot returns the slot of the message with the id.
func (id MessageID) Slot() Slot { return Slot(id[len(id)-1] % Slots) }

// Slot returns the slot of the message whose event has the position, or of the run that has it.
func (p Position) Slot() Slot { return Slot(p % Slots) }

// Slot returns the slot of a run and of what belongs to it.
func (r *RunRef) Slot() Slot { return SlotOf(r.ID) }

// OwnSlot chooses a slot for what may be in any: one that this node serves, the given one if possible.
type OwnSlot func(user string, slot Slot) Slot

// SetSlot changes the id of a new message, so that the message is in the slot of its queue, or else of
// its flow-control key, or else of its run, or else in the one that own has for its host. own may be nil.
func (m *Message) SetSlot(own OwnSlot) {
	slot := m.Lane().Slot()
	switch {
	case m.Lane().Kind != LaneHost:
	case m.Run != nil:
		slot = m.Run.Slot()
	case own != nil:
		slot = own(m.User, slot)
	}
	m.ID = m.ID.in(slot)
}

// in returns the id with another slot.
func (id MessageID) in(slot Slot) MessageID {
	last := &id[len(id)-1]
	*last = *last&^(Slots-1) | byte(slot)
	return id
}
