package persistent_queue_test

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const glossaryPage = "docs/zh/glossary.md"

// word is a line of the glossary: a term of the field, what it is called in Chinese, and what it is not called.
type word struct {
	english, chinese string
	never            []string
}

func TestTheChinesePagesUseTheWordsOfTheGlossary(t *testing.T) {
	words := readGlossary(t)
	texts := chineseTexts(t)
	for name, text := range texts {
		for _, fault := range chineseFaults(text, words) {
			t.Errorf("%s: %s", name, fault)
		}
	}
	all := ""
	for _, text := range texts {
		all += prose(text)
	}
	for _, w := range words {
		if !strings.Contains(all, w.chinese) {
			t.Errorf("the glossary has %s, which no page says", w.chinese)
		}
	}
	english := documents(t)
	for name, text := range texts {
		for _, fault := range missingWords(englishTwin(english, name), text, words) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

// The faults of each kind are planted in sentences that have no other, and so is each word that the glossary rules out.
func TestAPlantedFaultOfAChinesePageIsFound(t *testing.T) {
	words := readGlossary(t)
	for text, want := range map[string]string{
		"任务失败之后，你可以重试。":                                 "你: 您",
		"持有者按任期写入。":                                     "任期: 任期号",
		"任务进来时，由处理器执行。":                                 "处理器: 处理函数",
		"这里 the job runs again 忘了翻译。":                   "English: the job runs again",
		"| 情况 | it waits for a signal |":                "English: it waits for a signal",
		"执行失败,就重试。":                                     "punctuation: 败,就",
		"任务有三种状态:等待。":                                   "punctuation: 态:等",
		"由 Runner执行。":                                   "space: r执",
		"最多重试25 次。":                                     "space: 试2",
		"[see the page](a.md#b)。":                       "English: see the page",
		"用 `job.CompleteTx`。\n\n- 执行者 leaves it to you": "English: leaves it to you",
	} {
		if got := chineseFaults(text, words); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: found %q, want %q", text, got, want)
		}
	}
	for _, w := range words {
		for _, never := range w.never {
			if got := chineseFaults("这里说的是"+never+"。", words); !slices.Contains(got, never+": "+w.chinese) {
				t.Errorf("%s is to be %s, and nobody notices: %q", never, w.chinese, got)
			}
		}
	}
	if got := missingWords("A lease, two leases, and the Lease.", "租契有三份。", words); !slices.Equal(got, []string{"lease: 租约"}) {
		t.Errorf("a page with a word of its own for a lease: %q", got)
	}
	good := "您的任务带有任期号，值由编解码器处理。日志里写着“cut off by a stop”，状态是 `left to you and me`。\n\n```\nyou may say 你 here\n```\n\n" +
		"见[接口](../service/api.md)（英文）和 River Pro，时间是 10:30，共 1,000 个：好。"
	if got := chineseFaults(good, words); len(got) > 0 {
		t.Errorf("found in a text without faults: %q", got)
	}
	if got := missingWords("A lease, two leases, and the lease.", "租约有三份。", words); len(got) > 0 {
		t.Errorf("found missing, and is there: %q", got)
	}
}

// readGlossary reads the table that people read.
func readGlossary(t *testing.T) (words []word) {
	t.Helper()
	text, err := os.ReadFile(glossaryPage)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			continue
		}
		w := word{english: strings.TrimSpace(cells[1]), chinese: strings.TrimSpace(cells[2])}
		if !hanPattern.MatchString(w.chinese) || hanPattern.MatchString(w.english) {
			continue // the head of the table
		}
		w.never = strings.FieldsFunc(cells[3], func(r rune) bool { return r == '、' || r == ' ' })
		words = append(words, w)
	}
	if len(words) < 40 {
		t.Fatalf("%s has %d terms", glossaryPage, len(words))
	}
	return words
}

// chineseTexts are the Chinese pages, and the Chinese words of the site. Of the glossary, it is what stands around its table.
func chineseTexts(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for name, text := range documents(t) {
		if name == "README.zh-CN.md" || path.Dir(name) == "docs/zh" {
			texts[name] = text
		}
	}
	texts[glossaryPage] = regexp.MustCompile(`(?m)^\|.*$`).ReplaceAllString(texts[glossaryPage], "")
	const site = "site/language.go"
	code, err := os.ReadFile(site)
	if err != nil {
		t.Fatal(err)
	}
	for _, literal := range regexp.MustCompile(`"[^"\n]*\p{Han}[^"\n]*"`).FindAllString(string(code), -1) {
		texts[site] += strings.Trim(literal, `"`) + "\n\n"
	}
	if len(texts) < 10 || len(texts[site]) < 500 {
		t.Fatalf("%d Chinese texts; %d bytes of the site", len(texts), len(texts[site]))
	}
	return texts
}

var (
	hanPattern  = regexp.MustCompile(`\p{Han}`)
	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	quoted      = regexp.MustCompile(`“[^”\p{Han}]*”`)
	autoLink    = regexp.MustCompile(`<[a-z]+:[^>]*>`)
	linkTarget  = regexp.MustCompile(`\]\([^)]*\)`)
	englishRun  = regexp.MustCompile(`[A-Za-z][A-Za-z'’-]*(?: [A-Za-z][A-Za-z'’-]*){2,}`)
	halfWidth   = regexp.MustCompile(`\p{Han}[,;:?!]\p{Han}?|[,;:?!]\p{Han}`)
	withoutRoom = regexp.MustCompile(`\p{Han}[A-Za-z0-9]|[A-Za-z0-9]\p{Han}`)
)

// prose is what somebody has written in words: without code, quoted lines of a log and addresses.
func prose(text string) string {
	text = codeBlock.ReplaceAllString(text, "")
	text = codeSpan.ReplaceAllString(text, "…")
	text = quoted.ReplaceAllString(text, "…")
	text = autoLink.ReplaceAllString(text, "…")
	return linkTarget.ReplaceAllString(text, "]")
}

// chineseFaults says what the glossary's page rules out: words, English that was left, punctuation of the wrong width, and letters without a space
// beside Chinese.
func chineseFaults(text string, words []word) (faults []string) {
	text = prose(text)
	for _, w := range words {
		for _, never := range w.never {
			// 任期 is wrong, and 任期号 is right: a right word does not count as the wrong ones in it.
			rest := text
			for _, right := range words {
				if strings.Contains(right.chinese, never) {
					rest = strings.ReplaceAll(rest, right.chinese, "…")
				}
			}
			if strings.Contains(rest, never) {
				faults = append(faults, never+": "+w.chinese)
			}
		}
	}
	for kind, pattern := range map[string]*regexp.Regexp{"English": englishRun, "punctuation": halfWidth, "space": withoutRoom} {
		for _, found := range pattern.FindAllString(text, -1) {
			faults = append(faults, kind+": "+found)
		}
	}
	return faults
}

// missingWords are the terms that an English page says three times and its Chinese twin not once: it has another word for them, which
// the glossary does not know yet.
func missingWords(english, chinese string, words []word) (faults []string) {
	english, chinese = prose(english), prose(chinese)
	for _, w := range words {
		said := regexp.MustCompile(fmt.Sprintf(`(?i)\b%s(?:s|es)?\b`, regexp.QuoteMeta(w.english)))
		if len(said.FindAllString(english, -1)) >= 3 && !strings.Contains(chinese, w.chinese) {
			faults = append(faults, w.english+": "+w.chinese)
		}
	}
	return faults
}

// englishTwin is the English page that a Chinese one belongs to.
func englishTwin(read map[string]string, chinese string) (english string) {
	if chinese == "README.zh-CN.md" {
		return read["README.md"]
	}
	for _, folder := range []string{"guide", "operate", "service", "inside"} {
		english += read[path.Join("docs", folder, path.Base(chinese))]
	}
	return english
}

// shapes are the parts of a page under each of its headings: how many rows of tables, items of lists, blocks of code and pictures it has.
func shapes(text string) (parts []string) {
	heading, rows, items, blocks, pictures, inside := "the top", 0, 0, 0, 0, false
	end := func() {
		parts = append(parts, fmt.Sprintf("%s%d rows, %d items, %d blocks, %d pictures", heading, rows, items, blocks, pictures))
		rows, items, blocks, pictures = 0, 0, 0, 0
	}
	item := regexp.MustCompile(`^ *(?:- |\d+\. )`)
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			if inside = !inside; inside {
				blocks++
			}
		case inside:
		case strings.HasPrefix(line, "#"):
			end()
			heading = line[:strings.Index(line, " ")] + " "
		case strings.HasPrefix(line, "|"):
			rows++
		case strings.HasPrefix(line, "!["), strings.HasPrefix(line, "[!["):
			pictures++
		case item.MatchString(line):
			items++
		}
	}
	end()
	return parts
}

// A row, an item or a drawing that one of the two lacks is news that has reached only one of them.
func TestAChinesePageHasTheRowsAndTheItemsOfItsEnglishTwin(t *testing.T) {
	read := documents(t)
	twins := 0
	for chinese, text := range chineseTexts(t) {
		english := englishTwin(read, chinese)
		if english == "" {
			continue // a table of contents, the glossary, the site
		}
		twins++
		want, got := shapes(english), shapes(text)
		for i := range max(len(want), len(got)) {
			if i >= len(want) || i >= len(got) || want[i] != got[i] {
				t.Errorf("%s: under heading %d, there are\n%v\nand in English\n%v", chinese, i, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
				break
			}
		}
	}
	if twins < 16 {
		t.Errorf("%d Chinese pages have an English twin", twins)
	}
	const page = "# A\n\n| a |\n|---|\n\n- b\n- c\n\n```\n- d\n```\n"
	for _, missing := range []string{"| a |\n", "- c\n", "```\n- d\n```\n"} {
		if slices.Equal(shapes(page), shapes(strings.Replace(page, missing, "", 1))) {
			t.Errorf("a page without %q has the shape of the page with it", missing)
		}
	}
}

// Whoever reads Chinese is led on in Chinese.
func TestALinkOfAChinesePageLeadsToTheChinesePageIfThereIsOne(t *testing.T) {
	read := documents(t)
	english := regexp.MustCompile(`^docs/(guide|operate|service|inside)/`)
	seen := 0
	for name, text := range chineseTexts(t) {
		for _, link := range markdownLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			file, _, _ := strings.Cut(link[1], "#")
			to := path.Join(path.Dir(name), file)
			if !english.MatchString(to) || path.Ext(to) != ".md" {
				continue
			}
			seen++
			if twin := path.Join("docs/zh", path.Base(to)); read[twin] != "" {
				t.Errorf("%s leads to %s, and there is %s", name, link[1], twin)
			}
		}
	}
	if seen < 30 {
		t.Errorf("%d links to English pages were looked at", seen)
	}
}
