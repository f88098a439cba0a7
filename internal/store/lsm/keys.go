package lsm

import (
	"encoding/binary"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/lanes"
)

// The key schema, all of it. Integers are big-endian so that byte order is
// number order; a user is one length byte and its id; a text is its length in two bytes,
// or ff ff and its length in eight, and the text.
//
//	m format                                    → format version, uvarint
//	m end                                       → how many commits there were, see guard, and the highest position written, 8 bytes each
//	v USER KEY                                  → secret
//	q USER NAME                                 → queue
//	g USER NAME                                 → URL group
//	c USER ID                                   → schedule
//	f USER KEY                                  → flow-control key
//	k due64 USER ID                             → nothing: the schedule is due then
//	a USER ID                                   → bulk action
//	w USER KIND TEXT order64 ID                 → waiting; the text is the name of the lane
//	d e USER position64                         → dead letter
//	d p USER FIELD hash64 position64            → posting of that dead letter
//	s DAY e USER ID                             → envelope: where the body is, record.AppendMessage
//	s DAY b USER ID                             → body, when it is large
//	s DAY t USER ID                             → status
//	s DAY l USER position64                     → log block, named by its first position
//	s DAY r USER position64                     → response of the event at that position
//	s DAY p USER FIELD hash64 position64        → posting block, named by its first position
//	s DAY o USER ID                             → nothing: the day has events of that older message
//	s DAY n USER                                → how many events the day has, varint
//	s DAY h USER HOUR8 SERIES                   → how many events the hour has of a series, by state; see hours.go
//	t WEEK USER FIELD hash64 DAY                → nothing: the day has events with that; see dayindex.go
//	x USER window32 hash128                     → submission: Unix milliseconds64, ids
//	i USER window32 hash128                     → response to an operation on runs
//	n r USER run64                              → run with its progress
//	n i USER hash128                            → run64 of the latest run with an id
//	n e USER run64 index32                      → entry of its list
//	n k USER run64 hash128                      → message id that the run remembers under a text
//	n w USER run64 waiter64                     → waiter
//	n v USER hash128 waiter64                   → run64: that waiter waits for a topic
//	n t due64 USER run64 waiter64               → nothing: the waiter's deadline is then
//	n s USER run64 hash128 position64           → event, by its id, that came before its waiter
//	n x USER FIELD hash64 run64                 → posting of a run
//	n d USER position64                         → a run in the DLQ: run64 and the dead letter
//	n y USER FIELD hash64 position64            → posting of that dead letter
//	n o USER ID 0 position64                    → nothing: that dead letter is of a run with that id
//	u d USER                                    → how many dead letters there are, varint
//	u f USER                                    → how many runs are in the DLQ, varint
//	u r USER                                    → how many runs there are, varint
//	z KIND due64 USER KEY                       → nothing: that record is due then; KIND is its store.ItemKind
//	y KIND USER FIELD hash64 KEY                → nothing: that record is found by that
//
// Everything under s belongs to a day, so that retention drops a day as one
// range: envelopes, bodies and states by the day in the message's id; log
// blocks, responses and postings by the day of their position.
//
// A message that waits or is claimed has exactly one w key, its place in its lane
// (see spotLen). The key stays while the message is
// claimed, which is why a crash makes claimed messages due again. In a queue it
// stays through retries too, and after the message ended until its callbacks have.
const (
	kindMeta       = 'm'
	kindVault      = 'v'
	kindQueue      = 'q'
	kindGroup      = 'g'
	kindSchedule   = 'c'
	kindFlowKey    = 'f'
	kindTick       = 'k'
	kindAction     = 'a'
	kindWaiting    = 'w'
	kindDeadLetter = 'd'
	kindSegment    = 's'
	kindDayIndex   = 't'
	kindRun        = 'n'
	kindCount      = 'u'
	kindDue        = 'z'
	kindFound      = 'y'
	kindSubmission = 'x'
	kindResponse   = 'i'

	segmentEnvelope = 'e'
	segmentBody     = 'b'
	segmentStatus   = 't'
	segmentLog      = 'l'
	segmentResponse = 'r'
	segmentPosting  = 'p'
	segmentOlder    = 'o'
	segmentCount    = 'n'
	segmentHour     = 'h'

	deadLetterEntry   = 'e'
	deadLetterPosting = 'p'

	runEnvelope          = 'r'
	runLatest            = 'i'
	runEntry             = 'e'
	runMemory            = 'k'
	runWaiter            = 'w'
	runTopic             = 'v'
	runDeadline          = 't'
	runEvent             = 's'
	runPosting           = 'x'
	runDeadLetter        = 'd'
	runDeadLetterPosting = 'y'
	runDeadLetterID      = 'o'

	countedDeadLetters = 'd'
	countedFailedRuns  = 'f'
	countedRuns        = 'r'
)

// formatVersion is the version of this schema. A store written with a higher one is refused.
const formatVersion = 1

var (
	keyFormat = []byte{kindMeta, 'f', 'o', 'r', 'm', 'a', 't'}
	keyEnd    = []byte{kindMeta, 'e', 'n', 'd'}
)

// maxUserLen is what fits the length byte of a user in a key.
const maxUserLen = 255

// day numbers the days since 1970 in UTC.
type day uint16

const dayMS = int64(24 * time.Hour / time.Millisecond)

func dayOf(t time.Time) day { return day(t.UnixMilli() / dayMS) }

func appendUser(key []byte, user string) []byte {
	return append(append(key, byte(len(user))), user...)
}

func appendSegment(key []byte, d day, part byte, user string) []byte {
	key = append(key, kindSegment)
	key = binary.BigEndian.AppendUint16(key, uint16(d))
	return appendUser(append(key, part), user)
}

// appendMessageKey makes the key of a part of a message.
func appendMessageKey(key []byte, part byte, user string, id posthaste.MessageID) []byte {
	return append(appendSegment(key, dayOf(id.CreatedAt()), part, user), id[:]...)
}

// appendPositionKey makes the key of a log block or a response.
func appendPositionKey(key []byte, part byte, user string, p posthaste.Position) []byte {
	return binary.BigEndian.AppendUint64(appendSegment(key, dayOf(p.Time()), part, user), uint64(p))
}

func appendPostingPrefix(key []byte, d day, user string, t store.Term) []byte {
	key = append(appendSegment(key, d, segmentPosting, user), t.Field)
	return binary.BigEndian.AppendUint64(key, t.Hash)
}

func appendLane(key []byte, id lanes.ID) []byte {
	key = append(appendUser(append(key, kindWaiting), id.User), byte(id.Kind))
	return appendText(key, id.Name)
}

// longText is what stands in the place of a length that two bytes cannot hold.
const longText = 1<<16 - 1

// appendText adds a text and its length, so that no text is the beginning of another.
func appendText(key []byte, text string) []byte {
	if len(text) < longText {
		key = binary.BigEndian.AppendUint16(key, uint16(len(text)))
	} else {
		key = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint16(key, longText), uint64(len(text)))
	}
	return append(key, text...)
}

// cutText splits what begins with a text that appendText added.
func cutText(data []byte) (text, rest []byte, ok bool) {
	if len(data) < 2 {
		return nil, nil, false
	}
	size := uint64(binary.BigEndian.Uint16(data))
	if data = data[2:]; size == longText {
		if len(data) < 8 {
			return nil, nil, false
		}
		if size, data = binary.BigEndian.Uint64(data), data[8:]; size < longText {
			return nil, nil, false // a text has one form
		}
	}
	if size > uint64(len(data)) {
		return nil, nil, false
	}
	return data[:size], data[size:], true
}

// spotLen is the length of a spot at the end of a waiting key. Its order is the due time, as the first
// position of that millisecond; in a queue, whose order must be that of acceptance also when the clock
// does not move or steps back, it is the position of the CREATED event, unless the message is delayed
// beyond that.
const spotLen = 8 + len(posthaste.MessageID{})

func appendWaitingKey(key []byte, id lanes.ID, t lanes.Spot) []byte {
	key = binary.BigEndian.AppendUint64(appendLane(key, id), uint64(t.Order))
	return append(key, t.ID[:]...)
}

// parseWaitingKey splits a waiting key. ok is false for any other key.
func parseWaitingKey(key []byte) (id lanes.ID, t lanes.Spot, ok bool) {
	if len(key) == 0 || key[0] != kindWaiting {
		return lanes.ID{}, lanes.Spot{}, false
	}
	user, rest, err := userKey(key[1:])
	if err != nil || len(rest) == 0 {
		return lanes.ID{}, lanes.Spot{}, false
	}
	name, place, ok := cutText(rest[1:])
	if !ok || len(place) != spotLen {
		return lanes.ID{}, lanes.Spot{}, false
	}
	id.User, id.Kind, id.Name = user, posthaste.LaneKind(rest[0]), string(name)
	return id, parseSpot(place), true
}

// parseSpot reads the spot at the end of a waiting key.
func parseSpot(key []byte) lanes.Spot {
	tail := key[len(key)-spotLen:]
	t := lanes.Spot{Order: posthaste.Position(binary.BigEndian.Uint64(tail))}
	copy(t.ID[:], tail[8:])
	return t
}
