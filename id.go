package posthaste

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"time"
)

// MessageID identifies a message. Its first six bytes are the Unix time of
// creation in milliseconds, the other ten are random, so that byte order, and
// the order of the text form, is the order of creation.
type MessageID [16]byte

const (
	messageIDPrefix = "msg_"
	messageIDDigits = 22 // enough base-58 digits for 128 bits

	// The alphabet leaves out 0, O, I and l, and ascends in ASCII so that
	// text order equals number order.
	base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
)

var errMessageID = errors.New("not a message id")

// NewMessageID makes an id for a message created at the given time, with its
// random part read from entropy.
func NewMessageID(at time.Time, entropy io.Reader) (MessageID, error) {
	var id MessageID
	if _, err := io.ReadFull(entropy, id[6:]); err != nil {
		return MessageID{}, err
	}
	ms := uint64(at.UnixMilli())
	binary.BigEndian.PutUint16(id[0:2], uint16(ms>>32))
	binary.BigEndian.PutUint32(id[2:6], uint32(ms))
	return id, nil
}

// ParseMessageID reads the text form.
func ParseMessageID(s string) (MessageID, error) {
	if len(s) != len(messageIDPrefix)+messageIDDigits || s[:len(messageIDPrefix)] != messageIDPrefix {
		return MessageID{}, errMessageID
	}
	var hi, lo uint64
	for i := len(messageIDPrefix); i < len(s); i++ {
		digit := base58Value[s[i]]
		if digit < 0 {
			return MessageID{}, errMessageID
		}
		carry, low := bits.Mul64(lo, 58)
		overflow, high := bits.Mul64(hi, 58)
		var c uint64
		lo, c = bits.Add64(low, uint64(digit), 0)
		hi, c = bits.Add64(high, carry, c)
		if overflow != 0 || c != 0 {
			return MessageID{}, errMessageID
		}
	}
	var id MessageID
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, nil
}

// String returns the text form: "msg_" and 22 base-58 digits.
func (id MessageID) String() string {
	var text [len(messageIDPrefix) + messageIDDigits]byte
	copy(text[:], messageIDPrefix)
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	for end := len(text); end > len(messageIDPrefix); {
		var part uint64 // the last digits, as many as a word has: to divide words is fast
		hi, part = hi/wordOfDigits, hi%wordOfDigits
		lo, part = bits.Div64(part, lo, wordOfDigits)
		for begin := max(end-digitsInWord, len(messageIDPrefix)); end > begin; part /= 58 {
			end--
			text[end] = base58[part%58]
		}
	}
	return string(text[:])
}

// digitsInWord is how many base-58 digits a word has, and wordOfDigits the least number
// with one more.
const (
	digitsInWord = 10
	wordOfDigits = 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58 * 58
)

// CreatedAt returns the time in the id, to the millisecond.
func (id MessageID) CreatedAt() time.Time {
	ms := uint64(binary.BigEndian.Uint16(id[0:2]))<<32 | uint64(binary.BigEndian.Uint32(id[2:6]))
	return time.UnixMilli(int64(ms))
}

// IsZero reports whether the id was never set.
func (id MessageID) IsZero() bool { return id == MessageID{} }

// MarshalText makes an id a string in JSON.
func (id MessageID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *MessageID) UnmarshalText(text []byte) error {
	parsed, err := ParseMessageID(string(text))
	*id = parsed
	return err
}

var base58Value = func() (values [256]int8) {
	for i := range values {
		values[i] = -1
	}
	for i := range base58 {
		values[base58[i]] = int8(i)
	}
	return values
}()
