package record

import (
	"encoding/binary"
	"errors"
	"time"

	"posthaste"
)

var errParts = errors.New("record: parts are cut off")

// AppendParts joins parts so that Parts can take them apart.
func AppendParts(dst []byte, parts ...[]byte) []byte {
	for _, part := range parts {
		dst = append(binary.AppendUvarint(dst, uint64(len(part))), part...)
	}
	return dst
}

// Parts takes apart what AppendParts joined: exactly n parts, which share the data.
func Parts(data []byte, n int) ([][]byte, error) {
	parts := make([][]byte, 0, n)
	for len(data) > 0 {
		size, width := binary.Uvarint(data)
		if width <= 0 || size > uint64(len(data)-width) {
			return nil, errParts
		}
		end := width + int(size)
		parts = append(parts, data[width:end:end])
		data = data[end:]
	}
	if len(parts) != n {
		return nil, errParts
	}
	return parts, nil
}

// Place is where a message stands that nobody has claimed.
type Place struct {
	State   posthaste.State // CREATED or RETRY while it waits, else how it ended
	Retried int

	// Of one that has a place in its lane, because it waits, or because it has ended
	// and its callbacks in a queue have not; Order is zero for all others.
	Order           posthaste.Position
	DueAt           time.Time
	Callbacks       int // that have not ended
	CancelRequested bool
}

// AppendPlace encodes a place.
func AppendPlace(dst []byte, p *Place) []byte {
	dst = append(dst, version, StateCode(p.State))
	dst = binary.AppendUvarint(dst, uint64(p.Retried))
	dst = binary.AppendUvarint(dst, uint64(p.Order))
	if p.Order == 0 {
		return dst
	}
	dst = binary.AppendVarint(dst, p.DueAt.UnixMilli())
	dst = binary.AppendUvarint(dst, uint64(p.Callbacks))
	if p.CancelRequested {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// DecodePlace decodes what AppendPlace encoded.
func DecodePlace(data []byte) (p Place, err error) {
	if len(data) < 2 || data[0] != version {
		return p, errEmpty
	}
	if p.State, err = StateOf(data[1]); err != nil {
		return p, err
	}
	r := numbers{rest: data[2:]}
	p.Retried = int(r.unsigned())
	if p.Order = posthaste.Position(r.unsigned()); p.Order != 0 {
		p.DueAt = time.UnixMilli(r.signed())
		p.Callbacks = int(r.unsigned())
		p.CancelRequested = r.unsigned() != 0
	}
	if r.failed || len(r.rest) > 0 {
		return p, errParts
	}
	return p, nil
}

// numbers reads one number after the other.
type numbers struct {
	rest   []byte
	failed bool
}

func (r *numbers) unsigned() uint64 {
	n, width := binary.Uvarint(r.rest)
	r.skip(width)
	return n
}

func (r *numbers) signed() int64 {
	n, width := binary.Varint(r.rest)
	r.skip(width)
	return n
}

func (r *numbers) skip(width int) {
	if width <= 0 {
		r.failed, r.rest = true, nil
		return
	}
	r.rest = r.rest[width:]
}
