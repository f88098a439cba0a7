package e2e

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"golang.org/x/image/draw"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/goregular"
)

var renewPictures = flag.Bool("renew-pictures", false, "write testdata/pictures.txt from what the console looks like now: look at what -screenshots keeps first")

// The kept pictures are coarse: the mean colours of so many cells. A cell is large beside a letter, so
// that it does not matter how a version of Chromium smooths letters, and no higher than a line, so
// that a line which has moved or changed its colour is noticed.
const (
	pictureColumns = 16
	pictureRows    = 36
	pictureHeight  = 900 // pixels of the page that a picture shows

	// Two colours differ if a channel does by more than alike of 63; a picture differs if more
	// than fewCells cells do.
	alike    = 3
	fewCells = 2
)

const keptPictures = "testdata/pictures.txt"

// picturedViews are the main views, each with what it shows once all of it is there.
var picturedViews = []struct{ name, address, shows string }{
	{"sign-in", "/console/overview", "posthaste dev prints it"},
	{"first-run", "/console/start", "QSTASH_TOKEN"},
	{"overview", "/console/overview", "Failing destinations"},
	{"messages", "/console/messages", "17 messages"},
	{"log", "/console/logs", "in all."},
	{"message", "/console/messages?open=" + picturedMessage, "Timeline"},
	{"runs", "/console/runs", "run2"},
	{"run", "/console/runs/run1", "charge the card"},
	{"dead-letters", "/console/dlq/runs", "the card service is down"},
	{"queues", "/console/queues", "reports"},
	{"schedules", "/console/schedules", "nightly"},
	{"groups", "/console/groups", "shops"},
	{"flow", "/console/flow", "tenant/7"},
	{"settings", "/console/settings", "Limits in force"},
	{"docs", "/docs", "Posthaste"},
}

const picturedMessage = "msg_1ChQLoTaBXYk2tU57nLw5d"

// standing makes what a page shows the same everywhere and always: the clock stands, and all text
// is in fonts that the test brings along.
const standing = `
	const RealDate = Date, now = %d;
	Date = class extends RealDate { constructor(...given) { given.length === 0 ? super(now) : super(...given); } };
	Date.now = () => now;
	addEventListener("DOMContentLoaded", async () => {
		const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
		document.fonts.add(await new FontFace("Standing", bytes(%q)).load());
		document.fonts.add(await new FontFace("Standing Mono", bytes(%q)).load());
		const sheet = new CSSStyleSheet();
		sheet.replaceSync("* { font-family: Standing !important; animation: none !important; transition: none !important; caret-color: transparent !important } code, pre, kbd, code *, pre * { font-family: 'Standing Mono' !important } ::-webkit-scrollbar { display: none }");
		document.adoptedStyleSheets = [sheet];
		window.stands = true;
	});
`

// TestPictures compares what the views look like with kept pictures, on three widths and in both
// schemes of colours, and looks for faults of accessibility and of layout. What the API answers is
// in testdata/console.json. With -screenshots each view is looked at in both schemes on each width,
// otherwise in one of them: the next width, and the next view, in the other.
func TestPictures(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	b := startBrowser(t, withWindows)
	_, c := startDev(t, "--port", "0")
	api := startAnswers(t, c)
	kept, got := readPictures(t), map[string][]byte{}
	for i, view := range picturedViews {
		address, isDocs := api.base+view.address, strings.HasPrefix(view.address, "/docs")
		switch {
		case isDocs: // which is not described, and answers by itself
			address = c.base + view.address
		case view.name != "sign-in":
			address += "#token=" + devToken
		}
		page := b.openStanding(t, api.now, address)
		page.sees(view.shows)
		page.until(`window.stands === true && document.fonts.status === "loaded" && document.querySelector("[aria-busy=true]") === null`, "see all of "+view.name)
		if isDocs {
			evaluate[bool](page, withoutContents)
		}
		for j, width := range []int64{1440, 1024, 390} {
			page.do(chromedp.EmulateViewport(width, pictureHeight))
			page.checkLayout(fmt.Sprintf("%s at %d pixels", view.name, width))
			for k, scheme := range []string{"light", "dark"} {
				if *screenshots == "" && !*renewPictures && (i+j+k)%2 == 1 {
					continue
				}
				page.colours(scheme)
				name := fmt.Sprintf("%s-%d-%s", view.name, width, scheme)
				if width == 1024 {
					page.checkAccessibility(name)
				}
				if *renewPictures {
					time.Sleep(time.Second / 4)
					data := page.capture()
					page.keep("standing-"+name, data)
					got[name] = coarse(t, data)
				} else if fault := page.differs("standing-"+name, kept[name]); fault != "" {
					t.Errorf("%s does not look as kept: %s; -screenshots DIR shows what it looks like, and -renew-pictures keeps it", name, fault)
				}
			}
		}
	}
	if *renewPictures {
		writePictures(t, got)
	}
}

// withoutContents leaves of a page of the documentation what does not change with each word that
// is written: the first entries of its navigation and its title, and a sample of each element.
const withoutContents = `(() => {
	const first = (selector, count) => document.querySelectorAll(selector).forEach((list) => [...list.children].slice(count).forEach((one) => one.remove()));
	first("nav ul", 2);
	const main = document.querySelector("main");
	main.innerHTML = "<h1>Title</h1><p>A sentence with <code>code</code> and <a href='#'>a link</a>.</p><h2>Part</h2><pre><code>posthaste dev\nposthaste logs</code></pre>" +
		"<table><thead><tr><th>name</th><th>value</th></tr></thead><tbody><tr><td>one</td><td>two</td></tr></tbody></table><ul><li>item</li></ul>";
	return true;
})()`

// openStanding opens an address in a tab whose clock stands.
func (b *browser) openStanding(t *testing.T, now int64, address string) *tab {
	t.Helper()
	page := b.open(t, [2]int64{1440, pictureHeight}, "about:blank")
	script := fmt.Sprintf(standing, now, base64.StdEncoding.EncodeToString(goregular.TTF), base64.StdEncoding.EncodeToString(gomono.TTF))
	if _, err := chromedp.Call(page.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: script}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(page.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"}); err != nil {
		t.Fatal(err)
	}
	page.do(chromedp.Navigate(address))
	return page
}

// checkLayout fails the test for what is beyond the edge of the window, or cut off without a mark.
func (p *tab) checkLayout(where string) {
	p.t.Helper()
	for _, fault := range evaluate[[]string](p, `(() => {
		const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
		const faults = wide > 0 ? ["the page is " + wide + " pixels too wide"] : [];
		for (const part of document.querySelectorAll("h1, h2, button, .badge, summary, label > span")) {
			const box = part.getBoundingClientRect();
			if (box.width === 0 || part.closest(".skip, [hidden]") !== null) continue;
			if (part.matches("h1, h2") && box.right > innerWidth + 1) faults.push(part.innerText + " is beyond the edge");
			if (part.scrollWidth > part.clientWidth + 1 && getComputedStyle(part).overflow !== "visible" && getComputedStyle(part).textOverflow !== "ellipsis") faults.push(part.innerText + " is cut off");
		}
		return faults;
	})()`) {
		p.t.Errorf("%s: %s", where, fault)
	}
}

// differs says how the window differs from a kept picture, "" once it looks alike: the last piece of
// a page may be drawn after all that the page says.
func (p *tab) differs(name string, kept []byte) (fault string) {
	var data []byte
	for range 20 {
		data = p.capture()
		if fault = compareCoarse(kept, coarse(p.t, data)); fault == "" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.keep(name, data)
	return fault
}

// coarse returns the colours of a picture's cells, three bytes of six bits each.
func coarse(t *testing.T, picture []byte) (colours []byte) {
	t.Helper()
	large, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	small := image.NewRGBA(image.Rect(0, 0, pictureColumns, pictureRows))
	draw.BiLinear.Scale(small, small.Bounds(), large, large.Bounds(), draw.Src, nil) // the mean of each cell
	for i, channel := range small.Pix {
		if i%4 != 3 {
			colours = append(colours, channel>>2)
		}
	}
	return colours
}

// compareCoarse says how two coarse pictures differ, "" if they look alike.
func compareCoarse(kept, got []byte) string {
	if len(kept) != len(got) {
		return "there is no kept picture of this size"
	}
	var differ []string
	for cell := range len(got) / 3 {
		for i := cell * 3; i < cell*3+3; i++ {
			if is, was := int(got[i]), int(kept[i]); max(is-was, was-is) > alike {
				differ = append(differ, fmt.Sprintf("%d,%d", cell%pictureColumns, cell/pictureColumns))
				break
			}
		}
	}
	if len(differ) <= fewCells {
		return ""
	}
	return fmt.Sprintf("%d of %d cells differ, at %s", len(differ), len(got)/3, strings.Join(differ[:min(len(differ), 8)], " "))
}

// readPictures reads the kept pictures: on each line a name, and colours that are compressed.
func readPictures(t *testing.T) map[string][]byte {
	t.Helper()
	kept := map[string][]byte{}
	if *renewPictures {
		return kept
	}
	text, err := os.ReadFile(keptPictures)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, packed, _ := strings.Cut(strings.TrimSpace(line), " ")
		kept[name], err = io.ReadAll(flate.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(packed))))
		if err != nil {
			t.Fatalf("%s: %s: %v", keptPictures, name, err)
		}
	}
	return kept
}

func writePictures(t *testing.T, pictures map[string][]byte) {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(pictures)) {
		var packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.BestCompression)
		if err == nil {
			_, err = w.Write(pictures[name])
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s %s\n", name, base64.StdEncoding.EncodeToString(packed.Bytes()))
	}
	if err := os.WriteFile(keptPictures, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// standIn is a server whose pages are those of the program, and whose API answers what is kept.
type standIn struct {
	base string
	now  int64 // Unix ms, shortly after the last event
}

func startAnswers(t *testing.T, c *client) standIn {
	t.Helper()
	text, err := os.ReadFile("testdata/console.json")
	if err != nil {
		t.Fatal(err)
	}
	var kept struct {
		Now     int64
		Answers map[string]json.RawMessage // by path, and parameters that tell apart
	}
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	program, err := url.Parse(c.base)
	if err != nil {
		t.Fatal(err)
	}
	pages := httputil.NewSingleHostReverseProxy(program)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/v2/") {
			pages.ServeHTTP(w, r)
			return
		}
		key := r.URL.Path
		for _, name := range []string{"messageId", "workflowRunId", "bucket", "state", "host"} {
			if given := r.URL.Query()[name]; len(given) > 0 {
				key += " " + name + "=" + strings.Join(given, ",")
			}
		}
		answer, is := kept.Answers[key]
		if !is {
			t.Errorf("testdata/console.json has no answer %q, for %s", key, r.URL.RequestURI())
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(server.Close)
	return standIn{described(t, server.URL), kept.Now}
}
