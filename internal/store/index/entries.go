package index

import (
	"encoding/binary"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Entries returns, beside each block of the log, what is to be added to the index for the user's
// events of that day: all of it beside the first block, nil beside the others.
func (w *LogWriter) Entries() [][]byte {
	type userDay struct {
		user string
		day  posthaste.Position
	}
	block, postings, counts := map[userDay]int{}, map[userDay][]Posting{}, map[userDay][]Counts{}
	for i, b := range w.Blocks {
		of := userDay{b.User, dayOf(b.First)}
		if _, known := block[of]; !known {
			block[of] = i
		}
	}
	for _, p := range w.Postings {
		of := userDay{p.User, dayOf(p.First)}
		postings[of] = append(postings[of], p)
	}
	for _, c := range w.Counts {
		of := userDay{c.User, dayOf(posthaste.FirstPosition(time.UnixMilli(c.Hour)))}
		counts[of] = append(counts[of], c)
	}
	all := make([][]byte, len(w.Blocks))
	for of, i := range block {
		all[i] = appendEntries(nil, w.Blocks[i].First, postings[of], counts[of])
	}
	return all
}

// appendEntries encodes what is added to the index of a day. Nothing is before the first position,
// and no hour before that one's.
func appendEntries(dst []byte, first posthaste.Position, postings []Posting, counts []Counts) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(postings)))
	for _, p := range postings {
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.Term.Field)<<56|p.Term.Hash)
		dst = binary.AppendUvarint(dst, uint64(p.First-first))
		dst = appendBytes(dst, p.Gaps)
	}
	for _, c := range counts {
		dst = binary.AppendUvarint(dst, uint64(c.Hour/hourMS-hourAt(first)))
		dst = appendBytes(dst, []byte(c.Series))
		dst = binary.AppendUvarint(dst, uint64(len(c.Of)))
		for _, state := range c.Of {
			dst = binary.AppendUvarint(dst, uint64(state.What))
			dst = binary.AppendUvarint(dst, uint64(state.N))
		}
	}
	return dst
}

func hourAt(p posthaste.Position) int64 { return p.Time().UnixMilli() / hourMS }

func appendBytes(dst, data []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(data))), data...)
}

// AddEntries adds what Entries returned beside a block to the postings and the counts. Blocks of a
// user come in order.
func (w *LogWriter) AddEntries(user string, first posthaste.Position, entries []byte) error {
	w.begin()
	r := entryReader{left: entries}
	today := dayOf(first)
	for range r.number() {
		term := r.term()
		at := first + posthaste.Position(r.number())
		positions, err := DecodePosting(nil, at, r.bytes())
		if r.damaged || err != nil || at < first {
			return ErrDamaged
		}
		for _, at := range positions {
			w.post(postingOf{user, term}, at, today)
		}
	}
	for len(r.left) > 0 {
		hour := (hourAt(first) + int64(r.number())) * hourMS
		series := string(r.bytes())
		for range r.number() {
			state := StateCount{uint16(r.number()), int64(r.number())}
			if r.damaged {
				return ErrDamaged
			}
			of := countOf{user, hour, series}
			i, found := w.counted[of]
			if !found {
				i = w.newCounts(of)
			}
			w.Counts[i].Of = AddStates(w.Counts[i].Of, state)
		}
	}
	if r.damaged {
		return ErrDamaged
	}
	return nil
}

// entryReader reads encoded entries. damaged is whether they ended early.
type entryReader struct {
	left    []byte
	damaged bool
}

func (r *entryReader) number() uint64 {
	value, n := binary.Uvarint(r.left)
	if n <= 0 {
		r.left, r.damaged = nil, true
		return 0
	}
	r.left = r.left[n:]
	return value
}

func (r *entryReader) take(n uint64) []byte {
	if n > uint64(len(r.left)) {
		r.left, r.damaged = nil, true
		return nil
	}
	taken := r.left[:n]
	r.left = r.left[n:]
	return taken
}

func (r *entryReader) bytes() []byte { return r.take(r.number()) }

func (r *entryReader) term() store.Term {
	if b := r.take(8); b != nil {
		value := binary.BigEndian.Uint64(b)
		return store.Term{Field: byte(value >> 56), Hash: value & hashMask}
	}
	return store.Term{}
}
