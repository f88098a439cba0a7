package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
)

// The cursor of a list of ids is "i", the number done, a hyphen and a hash of those, by which
// another list is recognised.
const listMark = "i"

// ListCursor returns the cursor after the first ids of a list.
func ListCursor(done []string) string {
	sum := sha256.Sum256([]byte(strings.Join(done, ",")))
	return listMark + strconv.Itoa(len(done)) + "-" + hex.EncodeToString(sum[:4])
}

// ListDone returns how many ids the cursor says are done; begun is false without cursor.
func ListDone(params url.Values, ids []string) (done int, begun bool, err error) {
	text, err := parameters(params).one("cursor")
	if text == "" || err != nil {
		return 0, false, err
	}
	digits, _, _ := strings.Cut(strings.TrimPrefix(text, listMark), "-")
	done, err = strconv.Atoi(digits)
	if err != nil || done < 0 || done > len(ids) || ListCursor(ids[:done]) != text {
		return 0, false, invalid("cursor", text, "the cursor of an earlier answer to the same list of dlqIds")
	}
	return done, true, nil
}
