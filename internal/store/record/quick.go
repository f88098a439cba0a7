package record

import (
	"encoding/binary"
	"math"
	"time"
)

// A page of the log decodes a thousand messages, so their records and those of responses are read
// without reflection, if they are exactly as this package writes them: known fields in ascending
// order, each of its type. Everything else, such as a field of a later program, or damage, is left
// to the library, whose result or error counts.

// The first byte of a CBOR item has its major type in the upper three bits, and in the others its
// value or, from 24 on, the size of the value that follows.
const (
	majorUnsigned = 0
	majorNegative = 1
	majorBytes    = 2
	majorText     = 3
	majorList     = 4
	majorMap      = 5
	majorShift    = 5
	valueBits     = 1<<majorShift - 1
	oneByte       = 24

	encodedFalse = 0xf4
	encodedTrue  = 0xf5
)

// maxCallbacks is how many callbacks quick reads: a message has two, and clients cannot nest them.
const maxCallbacks = 8

// quick reads CBOR. After the first item that is not what was expected, other is set, and what it
// returns means nothing.
type quick struct {
	rest      []byte
	callbacks int
	other     bool
}

func newQuick(data []byte) quick {
	if len(data) == 0 || data[0] != version {
		return quick{other: true}
	}
	return quick{rest: data[1:]}
}

// whole reports whether all was read, and as expected.
func (q *quick) whole() bool { return !q.other && len(q.rest) == 0 }

// head reads the beginning of an item: its value or, for bytes, text and lists, the length.
func (q *quick) head() (major byte, value uint64) {
	if len(q.rest) == 0 {
		q.other = true
		return 0, 0
	}
	first := q.rest[0]
	major, value = first>>majorShift, uint64(first&valueBits)
	q.rest = q.rest[1:]
	if value < oneByte {
		return major, value
	}
	var wide [8]byte
	size := 1 << (value - oneByte)
	if value > oneByte+3 || len(q.rest) < size {
		q.other = true
		return 0, 0
	}
	copy(wide[len(wide)-size:], q.rest)
	q.rest = q.rest[size:]
	return major, binary.BigEndian.Uint64(wide[:])
}

// headOf is head of an item with a known major type, 0 for others.
func (q *quick) headOf(want byte) uint64 {
	major, value := q.head()
	if major != want {
		q.other = true
		return 0
	}
	return value
}

// fields reads a map, whose values are read by the caller.
func (q *quick) fields(value func(key uint64)) {
	last := uint64(0)
	for n := q.headOf(majorMap); n > 0 && !q.other; n-- {
		key := q.headOf(majorUnsigned)
		if key <= last {
			q.other = true
			return
		}
		last = key
		value(key)
	}
}

// span reads bytes or a text; what it returns is part of the data.
func (q *quick) span(major byte) []byte {
	size := q.headOf(major)
	if size > uint64(len(q.rest)) {
		q.other = true
		return nil
	}
	span := q.rest[:size]
	q.rest = q.rest[size:]
	return span
}

func (q *quick) text() string { return string(q.span(majorText)) }

func (q *quick) bytes() []byte { return append([]byte(nil), q.span(majorBytes)...) }

func (q *quick) texts() []string {
	n := q.headOf(majorList)
	if n > maxElements || n > uint64(len(q.rest)) {
		q.other = true
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = q.text()
	}
	return list
}

// unsigned reads a number of at most a limit.
func (q *quick) unsigned(limit uint64) uint64 {
	n := q.headOf(majorUnsigned)
	if n > limit {
		q.other = true
	}
	return n
}

func (q *quick) integer() int64 {
	major, n := q.head()
	if major > majorNegative || n > math.MaxInt64 {
		q.other = true
	}
	if major == majorNegative {
		return -1 - int64(n)
	}
	return int64(n)
}

// int is integer of what must fit an int.
func (q *quick) int() int {
	n := q.integer()
	if int64(int(n)) != n {
		q.other = true
	}
	return int(n)
}

func (q *quick) boolean() bool {
	if len(q.rest) == 0 || q.rest[0] != encodedTrue && q.rest[0] != encodedFalse {
		q.other = true
		return false
	}
	value := q.rest[0] == encodedTrue
	q.rest = q.rest[1:]
	return value
}

func (q *quick) message(rec *message) (whole bool) {
	q.fields(func(key uint64) {
		switch key {
		case 1:
			rec.URL = q.text()
		case 2:
			rec.Body = q.bytes()
		case 3:
			rec.CreatedAt = q.integer()
		case 4:
			rec.NotBefore = q.integer()
		case 5:
			rec.CallerIP = q.text()
		case 6:
			rec.Queue = q.text()
		case 7:
			rec.URLGroup = q.text()
		case 8:
			rec.Endpoint = q.text()
		case 9:
			rec.ScheduleID = q.text()
		case 10:
			q.settings(&rec.Settings)
		case 11:
			rec.SourceID = q.bytes()
		case 12:
			rec.Run = new(runLink)
			q.runLink(rec.Run)
		default:
			q.other = true
		}
	})
	return q.whole()
}

func (q *quick) settings(rec *settings) {
	q.fields(func(key uint64) {
		switch key {
		case 1:
			rec.Method = q.text()
		case 2:
			rec.Header = q.texts()
		case 3:
			retries := q.int()
			rec.Retries = &retries
		case 4:
			rec.RetryDelay = q.text()
		case 5:
			rec.Timeout = time.Duration(q.integer())
		case 6:
			rec.Labels = q.texts()
		case 7:
			rec.FlowKey = q.text()
		case 8:
			rec.FlowParallelism = q.int()
		case 9:
			rec.FlowRate = q.int()
		case 10:
			rec.FlowPeriod = time.Duration(q.integer())
		case 11:
			rec.Callback = q.callback()
		case 12:
			rec.FailureCallback = q.callback()
		case 13:
			rec.Dialect = uint8(q.unsigned(math.MaxUint8))
		case 14:
			rec.RedactBody = q.boolean()
		case 15:
			rec.RedactAll = q.boolean()
		case 16:
			rec.RedactHeaders = q.texts()
		case 17:
			rec.Trace = q.text()
		default:
			q.other = true
		}
	})
}

func (q *quick) callback() *callback {
	if q.callbacks++; q.callbacks > maxCallbacks {
		q.other = true
		return nil
	}
	rec := new(callback)
	q.fields(func(key uint64) {
		switch key {
		case 1:
			rec.URL = q.text()
		case 2:
			rec.Delay = time.Duration(q.integer())
		case 3:
			rec.Given = q.texts()
		case 4:
			q.settings(&rec.Settings)
		default:
			q.other = true
		}
	})
	return rec
}

func (q *quick) runLink(rec *runLink) {
	q.fields(func(key uint64) {
		switch key {
		case 1:
			q.runRef(&rec.Run)
		case 2:
			rec.CallType = q.text()
		case 3:
			rec.Entry = q.int()
		case 4:
			rec.Features = uint8(q.unsigned(math.MaxUint8))
		case 5:
			rec.ListBytes = q.int()
		default:
			q.other = true
		}
	})
}

func (q *quick) runRef(rec *runRef) {
	q.fields(func(key uint64) {
		switch key {
		case 1:
			rec.ID = q.text()
		case 2:
			rec.CreatedAt = q.integer()
		case 3:
			rec.Position = q.unsigned(math.MaxUint64)
		case 4:
			rec.URL = q.text()
		default:
			q.other = true
		}
	})
}

func (q *quick) response(rec *response) (whole bool) {
	q.fields(func(key uint64) {
		switch key {
		case 1:
			rec.Status = q.int()
		case 2:
			rec.Header = q.texts()
		case 3:
			rec.Body = q.bytes()
		case 4:
			rec.Truncated = q.boolean()
		default:
			q.other = true
		}
	})
	return q.whole()
}

func (q *quick) event(rec *event) (whole bool) {
	q.fields(func(key uint64) {
		switch key {
		case 1:
			rec.State = uint8(q.unsigned(math.MaxUint8))
		case 2:
			rec.Error = q.text()
		case 3:
			rec.NextDeliveryAt = q.integer()
		case 4:
			rec.Status = uint16(q.unsigned(math.MaxUint16))
		case 5:
			rec.Took = uint32(q.unsigned(math.MaxUint32))
		default:
			q.other = true
		}
	})
	return q.whole()
}
