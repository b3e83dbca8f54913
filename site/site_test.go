package main

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

const address = "https://queue.example/docs/"

var built = sync.OnceValues(func() (*site, error) { return build("..", address) })

func madeSite(t *testing.T) *site {
	t.Helper()
	s, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	attribute = regexp.MustCompile(`(?:href|src|srcset)="([^"]*)"`)
	named     = regexp.MustCompile(`id="([^"]*)"`)
)

// Within a site that may be anywhere, an address that begins with a slash is wrong, and so is one that leads out of it.
func TestEveryLinkOfThePagesLeadsToSomethingThatIsThere(t *testing.T) {
	s, links := madeSite(t), 0
	for name, content := range s.files {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, m := range attribute.FindAllStringSubmatch(string(content), -1) {
			link, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			links++
			to := name
			if link != "" {
				to = path.Join(path.Dir(name), link)
			}
			page, ok := s.files[to]
			if !ok {
				t.Errorf("%s: there is no %s", name, m[1])
			} else if anchor != "" && !hasAnchor(page, anchor) {
				t.Errorf("%s: %s has nothing called %s", name, to, anchor)
			}
		}
	}
	if links < 2000 {
		t.Errorf("%d links were looked at", links)
	}
}

func hasAnchor(page []byte, anchor string) bool {
	if name, err := url.PathUnescape(anchor); err == nil {
		anchor = name
	}
	for _, m := range named.FindAllSubmatch(page, -1) {
		if string(m[1]) == anchor {
			return true
		}
	}
	return false
}

func TestEveryLinkToTheRepositoryNamesAFileOrAFolderOfIt(t *testing.T) {
	s, links := madeSite(t), 0
	for name, content := range s.files {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, m := range attribute.FindAllStringSubmatch(string(content), -1) {
			file, _, _ := strings.Cut(m[1], "#")
			kind := "blob"
			below, ok := strings.CutPrefix(file, repository+"/blob/main/")
			if !ok {
				kind = "tree"
				if below, ok = strings.CutPrefix(file, repository+"/tree/main/"); !ok {
					continue
				}
			}
			links++
			info, err := os.Stat(filepath.Join("..", filepath.FromSlash(below)))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if info.IsDir() != (kind == "tree") {
				t.Errorf("%s: %s is no %s", name, below, kind)
			}
		}
	}
	if links < 200 {
		t.Errorf("%d links were looked at", links)
	}
}

func TestALinkToAnExampleLeadsToItsLine(t *testing.T) {
	s := madeSite(t)
	links := regexp.MustCompile(`href="` + repository + `/blob/main/([^"#]+\.go)#L(\d+)"[^>]*>(?:<code>)?(\w+)`)
	found := links.FindAllStringSubmatch(string(s.files["guide/adding.html"]), -1)
	for _, m := range found {
		code, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(m[1])))
		if err != nil {
			t.Fatal(err)
		}
		before, _, _ := strings.Cut(string(code), "\nfunc "+m[3]+"(")
		if want := strings.Count(before, "\n") + 2; number(float64(want)) != grouped(m[2]) {
			t.Errorf("%s stands in line %d of %s, and the link says %s", m[3], want, m[1], m[2])
		}
	}
	if len(found) < 10 {
		t.Errorf("%d links with a line in guide/adding.html", len(found))
	}
}

func TestAPageIsReadAsItStands(t *testing.T) {
	s := madeSite(t)
	for _, p := range s.pages {
		content := string(s.files[p.address])
		if strings.Contains(content, "raw HTML omitted") {
			t.Errorf("%s has HTML, which the site leaves out: put it in backquotes", p.source)
		}
		if p.movedTo == nil && (p.title == "" || p.summary == "" && p.address != "contents.html" && p.address != "zh/contents.html") {
			t.Errorf("%s has the title %q and the summary %q", p.address, p.title, p.summary)
		}
	}
}

func TestAnOldAddressLeadsOn(t *testing.T) {
	s, old := madeSite(t), 0
	for _, p := range s.pages {
		if p.movedTo == nil {
			continue
		}
		old++
		if content := string(s.files[p.address]); !strings.Contains(content, `content="0; url=`+p.movedTo.address+`"`) {
			t.Errorf("%s does not lead to %s:\n%s", p.address, p.movedTo.address, content)
		}
	}
	if old < 20 {
		t.Errorf("%d old addresses", old)
	}
}

func TestProgramsThatReadForPeopleFindEachPage(t *testing.T) {
	s := madeSite(t)
	list := string(s.files["llms.txt"])
	if !strings.HasPrefix(list, "# persistent-queue\n\n> ") {
		t.Errorf("llms.txt begins with %.100q", list)
	}
	for _, p := range s.pages {
		if dir := path.Dir(p.address); p.movedTo != nil || dir == "." || dir == "zh" && path.Ext(p.source) == ".md" && path.Base(p.source)[0] == 'R' {
			continue
		}
		if !regexp.MustCompile(`\]\(` + regexp.QuoteMeta(address+p.address) + `\): \S`).MatchString(list) {
			t.Errorf("llms.txt says nothing of %s", p.address)
		}
	}
}

// results.md is written by what measures, from the same files.
func TestThePlotsHaveTheFiguresOfTheResults(t *testing.T) {
	s := madeSite(t)
	results, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(benchFolder), "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	value := func(workload, system string, column int) string {
		_, part, _ := strings.Cut(string(results), "\n## "+workload+"\n")
		_, row, found := strings.Cut(part, "\n| "+system+" |")
		if !found {
			t.Fatalf("results.md has no %s in %s", system, workload)
		}
		return strings.Fields(strings.Split(row, "|")[column])[0]
	}
	for _, l := range languages {
		drawn := string(s.files[l.folder+"inside/figures.html"])
		for _, of := range []struct {
			workload, system, label, unit string
			column                        int
		}{
			{"drain", "persistent-queue, MariaDB", "persistent-queue · MariaDB", "", 0},
			{"drain", "asynq, Redis", "asynq · Redis", "", 0},
			{"drain", "River, PostgreSQL", "River · PostgreSQL", "", 4},
			{"latency-100", "persistent-queue, MySQL", "MySQL p99", " ms", 0},
			{"latency-100", "persistent-queue, SQLite", "SQLite p50", " ms", 1},
			{"burst-35000", "persistent-queue, PostgreSQL", "PostgreSQL late p99", " ms", 0},
		} {
			if bar := of.label + ": " + value(of.workload, of.system, of.column) + of.unit; !strings.Contains(drawn, bar) {
				t.Errorf("%s: no bar says %q", l.Name, bar)
			}
		}
		last, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(faultsFile)))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\| SIGKILL of the holder \| (\w+) \|[^|]*\|[^|]*\|[^|]*\|[^|]*\| (\S+) \|`).FindAllStringSubmatch(string(last), -1) {
			if bar := "SIGKILL · " + m[1] + ": " + m[2]; !strings.Contains(drawn, bar) {
				t.Errorf("%s: no bar says %q", l.Name, bar)
			}
		}
	}
}

func TestTheFrontPageHasTheFirstProgramAndTheWayOfAJob(t *testing.T) {
	s := madeSite(t)
	for _, l := range languages {
		front := string(s.files[l.folder+"index.html"])
		for _, has := range []string{`<section class="way"`, l.Way.Steps[7].Says, `<figure>`, "persistent_queue", `lang="` + l.Code + `"`} {
			if !strings.Contains(front, has) {
				t.Errorf("the front page in %s lacks %q", l.Name, has)
			}
		}
	}
}

func TestANumberHasThreeDigitsThatCount(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.575: "0.575", 2.8716: "2.87", 9.104: "9.1", 96.34: "96.3", 229.7: "230", 1117.2: "1,117", 81941.3: "81,941", 1e6: "1,000,000"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}
