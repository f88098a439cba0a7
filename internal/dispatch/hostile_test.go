package dispatch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"posthaste"
)

// repeat reads the request, writes text and then the same text for ever.
func repeat(text, next string) func(net.Conn) {
	return func(conn net.Conn) {
		conn.Read(make([]byte, 4096))
		io.WriteString(conn, text)
		many := strings.Repeat(next, max(1, 4096/len(next)))
		for {
			if _, err := io.WriteString(conn, many); err != nil {
				return
			}
		}
	}
}

// bomb is 8 MiB of zeros, in 8 KiB.
var bomb = sync.OnceValue(func() string {
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	zeros := make([]byte, 1<<20)
	for range 1 << 3 {
		if _, err := w.Write(zeros); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return small.String()
})

// TestHostileAnswers has destinations that answer what no honest one does. Each attempt
// ends, by itself and not by its timeout, and what is kept of the answer is small.
func TestHostileAnswers(t *testing.T) {
	const (
		ok       = "HTTP/1.1 200 OK\r\n"
		chunked  = ok + "Transfer-Encoding: chunked\r\n\r\n"
		invalid  = "HOST sent no valid HTTP response"
		tooLarge = "the response headers of HOST are too large"
		cutOff   = "HOST closed the connection before its response was complete"
	)
	tests := []struct {
		name   string
		handle func(net.Conn)
		want   string // the error; "" for an answer that is taken
	}{
		{"endless line", repeat("HTTP/1.1 200 ", "a"), tooLarge},
		{"endless number of headers", repeat(ok, "a: b\r\n"), tooLarge},
		{"endless header", repeat(ok+"a: ", "b"), tooLarge},
		{"endless informational answers", repeat("", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"), tooLarge},
		{"endless continues", repeat("", "HTTP/1.1 100 Continue\r\n\r\n"), tooLarge},
		{"endless chunk header", repeat(chunked, "a"), "HOST sent no valid HTTP response"},
		{"endless chunk extension", repeat(chunked+"1;", "a"), invalid},
		{"endless trailer", repeat(chunked+"0\r\n", "a: b\r\n"), invalid},
		{"endless tiny chunks", repeat(chunked, "1\r\na\r\n"), ""},
		{"endless body", repeat(ok+"\r\n", "a"), ""},
		{"compressed bomb", answer(ok + "Content-Encoding: gzip\r\n\r\n" + bomb()), ""},
		{"compressed bomb in chunks", answer(ok + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n" + bomb()[:1024] + "\r\n0\r\n\r\n"), ""},

		{"two lengths", answer(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), invalid},
		{"a negative length", answer(ok + "Content-Length: -1\r\n\r\n"), invalid},
		{"a length beyond numbers", answer(ok + "Content-Length: 99999999999999999999\r\n\r\n"), invalid},
		{"a length that is a list", answer(ok + "Content-Length: 1, 2\r\n\r\nab"), invalid},
		{"a length in hexadecimal", answer(ok + "Content-Length: 0x1\r\n\r\na"), invalid},
		{"a huge length", answer(ok + "Content-Length: 9223372036854775807\r\n\r\na"), cutOff},
		{"an unknown encoding", answer(ok + "Transfer-Encoding: gzip\r\n\r\n"), invalid},
		{"two encodings", answer(ok + "Transfer-Encoding: chunked, chunked\r\n\r\n"), invalid},
		{"a chunk without a size", answer(chunked + "\r\n\r\n"), invalid},
		{"a negative chunk", answer(chunked + "-1\r\n\r\n"), invalid},
		{"a chunk beyond numbers", answer(chunked + "fffffffffffffffff\r\n"), invalid},
		{"a chunk longer than its size", answer(chunked + "1\r\nab\r\n0\r\n\r\n"), invalid},
		{"a chunk that is cut off", answer(chunked + "5\r\nab"), cutOff},
		{"length and chunks", answer(ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"), ""},
		{"a folded header", answer(ok + "X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n"), ""},
		{"a space before the colon", answer(ok + "X-A : b\r\nContent-Length: 0\r\n\r\n"), ""},
		{"a header without a name", answer(ok + ": b\r\n\r\n"), invalid},
		{"a header without a colon", answer(ok + "X-A\r\n\r\n"), invalid},
		{"a zero byte in a name", answer(ok + "X\x00A: b\r\n\r\n"), invalid},
		{"bare line feeds", answer("HTTP/1.1 200 OK\nContent-Length: 1\n\na"), ""},
		{"no status", answer("HTTP/1.1\r\n\r\n"), invalid},
		{"a status of letters", answer("HTTP/1.1 abc OK\r\n\r\n"), invalid},
		{"a status of four digits", answer("HTTP/1.1 2000 OK\r\n\r\n"), invalid},
		{"a negative status", answer("HTTP/1.1 -20 OK\r\n\r\n"), invalid},
		{"an old protocol", answer("HTTP/0.9 200 OK\r\n\r\n"), ""},
		{"another protocol", answer("SSH-2.0-OpenSSH_9.6\r\n"), invalid},
		{"TLS", answer("\x16\x03\x01\x02\x00\x01\x00"), invalid},
	}
	d := newTestDispatcher(t, func(o *Options) { o.MaxResponseBody = 256 << 10 })
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			addr := serveTCP(t, test.handle)
			m := newMessage("http://" + addr)
			m.Timeout = time.Minute
			got := d.Attempt(t.Context(), m, 0)
			if want := strings.Replace(test.want, "HOST", addr, 1); got.Error != want || got.TimedOut {
				t.Errorf("error %q, timed out %t, want %q", got.Error, got.TimedOut, want)
			}
			requireBounded(t, d, got)
		})
	}
}

// requireBounded fails if more of an answer was kept than may be.
func requireBounded(t *testing.T, d *Dispatcher, got posthaste.Outcome) {
	t.Helper()
	if got.Response == nil {
		return
	}
	size := 0
	for name, values := range got.Response.Header {
		size += len(name) + len(strings.Join(values, ""))
	}
	if size > maxResponseHeader || len(got.Response.Body) > d.options.MaxResponseBody {
		t.Errorf("%d bytes of headers and %d of the body were kept", size, len(got.Response.Body))
	}
}

// TestRedirectLeadsNowhere has redirects to what the policy refuses and to what it does
// not: neither is asked.
func TestRedirectLeadsNowhere(t *testing.T) {
	elsewhere := newSink(t, answerOK)
	for _, status := range []string{"301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"} {
		for _, location := range []string{
			"http://" + elsewhere.addr, "//" + elsewhere.addr, "http://169.254.169.254/latest/meta-data/", "http://[::1]/",
			"file:///etc/passwd", "gopher://" + elsewhere.addr, "http://0x7f.1/", "\thttp://" + elsewhere.addr,
		} {
			t.Run(status+" "+location, func(t *testing.T) {
				addr := serveTCP(t, answer("HTTP/1.1 "+status+"\r\nLocation: "+location+"\r\nRefresh: 0; url="+location+"\r\nContent-Length: 0\r\n\r\n"))
				got := newTestDispatcher(t).Attempt(t.Context(), newMessage("http://"+addr), 0)
				if got.Class != posthaste.OutcomeRetryable || !strings.HasSuffix(got.Error, "redirects are not followed") {
					t.Errorf("outcome %s %q", got.Class, got.Error)
				}
			})
		}
	}
	if n := len(elsewhere.requests); n != 0 {
		t.Errorf("%d requests went where redirects led", n)
	}
}

// TestAnswersShareMemory reads more large answers at once than there is memory for: the
// first are whole, the others are cut, none to less than every answer may have.
func TestAnswersShareMemory(t *testing.T) {
	const size, limit, memory = 400 << 10, 1 << 20, 1 << 20
	var shared memoryBudget
	shared.left.Store(memory)
	loans := make([]reservation, 8)
	for i := range loans {
		loans[i].budget = &shared
		body, truncated, err := readGrowing(strings.NewReader(strings.Repeat("a", size)), limit, &loans[i])
		if err != nil {
			t.Fatal(err)
		}
		if whole := i < 2; whole != (len(body) == size) || whole == truncated || len(body) < presized {
			t.Errorf("answer %d: %d of %d bytes, truncated %t", i, len(body), size, truncated)
		}
		if int64(cap(body)) > presized+loans[i].taken {
			t.Errorf("answer %d takes %d bytes, and has borrowed %d", i, cap(body), loans[i].taken)
		}
		if left := shared.left.Load(); left < 0 {
			t.Errorf("answer %d: %d bytes too many are lent", i, -left)
		}
	}
	for i := range loans {
		loans[i].release()
	}
	if left := shared.left.Load(); left != memory {
		t.Errorf("%d bytes are free when all are given back, want %d", left, memory)
	}
}

// TestAnswersThatAreToldOfAreWhole has no memory for large answers. What a callback tells
// of is never a half that passes for the whole; what failed fails as it did.
func TestAnswersThatAreToldOfAreWhole(t *testing.T) {
	const large = 100 << 10
	tests := []struct {
		name, status string
		complete     bool
		want         posthaste.OutcomeClass
		wantError    string
		cut          bool
	}{
		{"a good answer of a message with a callback", "200 OK", true, posthaste.OutcomeRetryable, "no memory was left for the response of HOST beside other large responses", false},
		{"a bad one", "500 No", true, posthaste.OutcomeRetryable, "500 Internal Server Error", true},
		{"a good answer nobody is told of", "200 OK", false, posthaste.OutcomeDelivered, "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := newTestDispatcher(t, func(o *Options) { o.MaxResponseMemory = 1 })
			host := serveTCP(t, answer("HTTP/1.1 "+test.status+"\r\n\r\n"+strings.Repeat("a", large)))
			m := newMessage("http://" + host)
			if test.complete {
				m.Callback = &posthaste.Callback{URL: "https://example.com"}
			}
			got := d.Attempt(t.Context(), m, 0)
			if wantError := strings.ReplaceAll(test.wantError, "HOST", host); got.Class != test.want || got.Error != wantError {
				t.Errorf("%v %q, want %v %q", got.Class, got.Error, test.want, wantError)
			}
			if cut := got.Response != nil && got.Response.Truncated; cut != test.cut {
				t.Errorf("cut %t, want %t", cut, test.cut)
			}
			if left := d.budget.left.Load(); left != 1 {
				t.Errorf("%d bytes are free when all is done, want 1", left)
			}
		})
	}
}

// TestMemoryIsGivenBack has answers of all kinds of ends.
func TestMemoryIsGivenBack(t *testing.T) {
	large := strings.Repeat("a", 500<<10)
	d := newTestDispatcher(t)
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\n\r\n" + large,
		"HTTP/1.1 500 No\r\n\r\n" + large,
		"HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\n" + large,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(large) + "no chunk",
	} {
		d.Attempt(t.Context(), newMessage("http://"+serveTCP(t, answer(text))), 0)
	}
	if left := d.budget.left.Load(); left != defaultMaxResponseMemory {
		t.Errorf("%d bytes are free when all is done, want %d", left, defaultMaxResponseMemory)
	}
}

// TestAnswerSizes reads answers around every size at which memory is taken.
func TestAnswerSizes(t *testing.T) {
	d := newTestDispatcher(t, func(o *Options) { o.MaxResponseBody = 200_000 })
	for _, size := range []int{1, 511, 512, 513, presized - 1, presized, presized + 1, 199_999, 200_000, 200_001} {
		for _, head := range []string{"HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"} {
			body := strings.Repeat("x", size)
			text := head + body
			if strings.Contains(head, "chunked") {
				text = head + chunk(body) + chunk("")
			}
			got := d.Attempt(t.Context(), newMessage("http://"+serveTCP(t, answer(text))), 0)
			requireDelivered(t, got)
			if n := len(got.Response.Body); n != min(size, 200_000) || got.Response.Truncated != (size > 200_000) {
				t.Errorf("%d of %d bytes, truncated %t", n, size, got.Response.Truncated)
			}
		}
	}
}

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// FuzzAnswer compares what is kept of an answer with all of it: the same if it was not
// cut, and else its beginning, however little memory there is.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), 10, int64(10))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk(strings.Repeat("a", 5000))+chunk("")), 4000, int64(0))
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"+strings.Repeat("a", presized+5)), 1<<20, int64(0))
	f.Add([]byte("HTTP/1.1 101 Switching Protocols\r\n\r\nx"), 1, int64(1))
	f.Fuzz(func(t *testing.T, raw []byte, limit int, memory int64) {
		if limit < 1 || limit > 1<<20 || memory < 0 {
			return
		}
		read := func() *http.Response {
			response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
			if err != nil {
				return nil
			}
			return response
		}
		response := read()
		if response == nil || response.StatusCode == http.StatusSwitchingProtocols {
			return
		}
		var shared memoryBudget
		shared.left.Store(memory)
		borrowed := reservation{budget: &shared}
		body, truncated, err := readBody(response, limit, &borrowed)
		whole, wholeErr := io.ReadAll(read().Body)
		switch {
		case len(body) > limit || shared.left.Load() < 0:
			t.Errorf("%d bytes, at most %d are kept; %d of %d are left", len(body), limit, shared.left.Load(), memory)
		case err == nil && !truncated && (wholeErr != nil || !bytes.Equal(body, whole)):
			t.Errorf("kept %q as the whole of %q, %v", body, whole, wholeErr)
		case truncated && (len(body) >= len(whole) || !bytes.HasPrefix(whole, body)):
			t.Errorf("kept %q as the beginning of %q", body, whole)
		}
		borrowed.release()
		if left := shared.left.Load(); left != memory {
			t.Errorf("%d of %d bytes were given back", left, memory)
		}
	})
}
