"""Stop words by language: words that say nothing about a topic.

`new` is not one; `of` and `for` are (S4-E3). Written as the tokeniser leaves them: lower case, without
apostrophes, contracted words cut at theirs (`don't` is `don`).
"""

from functools import cache

from opilio.text.languages import language_code

_STOP_WORDS = {
    "ar": """
        أبدا أثناء أحد أحيانا أخرى أصبح أما أمام أن أنا أنت أنتم أنه أنها أو أول أولئك أي أيضا أين أيها إذا
        إلا إلى إما إن إنه إنها بأن بسبب بعد بعض بل بما به بها بهذا بين بينما تحت تكون تلك تم ثم جدا جميع
        حتى حول حيث حين خارج خلال داخل دون ذات ذلك سوف سوى ضد ضمن عبر عدة عدم على علي عليه عليها عن عند
        عندما عنه عنها غير فإن فقد فقط فهو فهي فوق في فيه فيها قبل قد كان كانت كانوا كذلك كل كلا كم كما كيف
        لأن لا لدى لقد لكل لكن لكنه لم لماذا لن له لها لهم لو لولا ليس ليست ما ماذا متى مثل مع معظم معه معها
        من منذ منه منها مهما نحن نحو نعم نفس هؤلاء هذا هذان هذه هل هم هن هنا هناك هو هي وأن وإن وفي وقد وكان
        وكانت ولا ولم وما ومن وهذا وهذه وهو وهي يا يتم يكون يمكن يوجد
    """,
    "ca": """
        a així això al algun alguna algunes alguns allò als altra altre altres amb aquell aquella aquelles aquells
        aquest aquesta aquestes aquests aquí cada com contra d de del dels des després dins doncs dos durant el ella
        elles ells els em en encara entre era eren es estan estat està et etc fa fins ha han havia hi ho i ja jo l la
        les li llur lo mentre meu meva molt molts més n na ni no nosaltres nostra nostre o on per perquè però poc pot
        qual quals quan quant que qui quin s sa se sense ser seu seus seva seves si sobre sols són també tan tant tot
        tota totes tots un una unes uns us va van vosaltres vostre és
    """,
    "cs": """
        a aby ale ani ano asi až bez bude budou by byl byla byli bylo být během ci co což další dnes do ho i jak jako
        jaký je jeden jedna jedné jeho jej jejich její jen jenž ještě ji jich jim jimi jiné jiný již jsem jsi jsme
        jsou jste já k kam každý kde kdo kdy kdyby když ke kterou která které který kterých kteří ku ma mají mezi mi
        mne mnou mně mohou mu my má mé mít můj může na nad nade naše ne nebo nebyl nebyla nebylo nechť nejsou není než
        nic nich nimi nám námi nás náš ním o od ode on ona oni ono ony pak po pod podle pokud potom pouze pro proto
        protože proč před přes při s se si sice skoro snad spolu své sví svých svým svůj ta tak takový také takže tam
        tato te tedy ten tento ti to tobě toho tohoto tom tomto tomu toto tu tuto tvá tvé tvůj ty tyto této tím tímto
        tě těch třeba u už v vaše ve vedle vy vám vámi vás váš více však všech všechen všechno všichni z za zda zde ze
        že
    """,
    "da": """
        ad af alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din disse dog du efter
        eller en end er et for fordi fra før ham han hans har havde have hele hende hendes her hos hun hvad hvem hver
        hvilken hvis hvor hvordan hvorfor i ikke ind ingen ja jeg jer jo kan kom kommer kun kunne lad man mange med
        meget men mens mere mig min mod må ned nej ni nogen noget nogle nu når og også om op os over på sammen selv
        sig sin skal skulle som så sådan thi til ud under var vi vil ville vor være været
    """,
    "de": """
        aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus bei
        beim bereits bin bis bist da dabei dadurch dafür daher damit dann daran darauf daraus darin das dass dazu daß
        dein deine deinem deinen deiner dem den denen denn der deren des dessen dich die dies diese diesem diesen
        dieser dieses dir doch dort du durch ein eine einem einen einer eines einige einigen einiger einmal er es etwa
        etwas euch euer eure eurem euren für gegen gewesen hab habe haben hat hatte hatten hier hin hinter ich ihm ihn
        ihnen ihr ihre ihrem ihren ihrer ihres im immer in indem ins ist ja jede jedem jeden jeder jedes jedoch jene
        jenem jenen jener jenes kann kein keine keinem keinen keiner können könnte machen man manche mehr mein meine
        meinem meinen meiner mich mir mit muss musste muß müssen nach nicht nichts noch nun nur ob oder ohne sehr sein
        seine seinem seinen seiner seines seit selbst sich sie sind so solche solchem solchen solcher soll sollen
        sollte sondern sonst sowie um und uns unser unsere unserem unseren unter viel viele vom von vor wann war waren
        warst warum was weil weiter welche welchem welchen welcher welches wenn wer werde werden wessen wie wieder
        will wir wird wirst wo wollen wollte worden wurde wurden während würde würden zu zum zur zwar zwischen über
    """,
    "el": """
        ένα έναν ένας έχει έχουν ή ήδη ήταν ίσως αλλά αν ανά αντί αποτελεί από αυτά αυτές αυτή αυτήν αυτής αυτοί αυτού
        αυτούς αυτό αυτόν αυτός αυτών αφού για γιατί δε δεν διότι εάν είμαι είναι είτε είχαν είχε εγώ εδώ εκεί εκείνη
        εκείνο εκείνοι εκείνος εμένα εμείς ενός ενώ επί επειδή εσείς εσύ η θα κάθε κάποια κάποιο κάποιος κάτι κάτω
        καθώς και κατά κι λοιπόν μέσα μέχρι μία μα μας με μετά μεταξύ μη μην μια μιας μου μπορεί μπορούν μόνο να ναι ο
        οι ου ούτε πάλι πάνω παρά πια πιο ποια ποιες ποιο ποιοι ποιος πολλά πολύ που πού πρέπει πριν προς πότε πώς σαν
        σας σε στα στη στην στις στο στον στους στων συν τα τη την της τι τις το τον του τους των τόσο τότε υπάρχει
        υπάρχουν υπό ως όλα όλες όλη όλο όλοι όλων όμως όπου όπως όσα όσο όταν ότι όχι ώστε
    """,
    "en": """
        a about above after again against ain all also although am among an and any are aren around as at away be
        because been before being below between both but by can cannot could couldn did didn do does doesn doing don
        done down during each either else etc even ever every few for from further get gets got had hadn has hasn have
        haven having he hence her here hers herself him himself his how however i if in into is isn it its itself just
        let like ll may me might mightn more most much must mustn my myself needn neither no nor not of off often on
        once one only onto or other others ought our ours ourselves out over own per quite rather re same shall shan
        she should shouldn since so some such than that the their theirs them themselves then there therefore these
        they this those though through thus to too toward towards under until up upon us ve very via was wasn we were
        weren what whatever when where whether which while who whom whose why will with within without would wouldn
        yet you your yours yourself yourselves
    """,
    "es": """
        a acá ahí al algo alguien alguna algunas alguno algunos algún allí ante antes aquel aquella aquellas aquellos
        aquí así aun aunque aún bajo bien cada casi como con contra cual cuales cualquier cuando cuanto cuya cuyo cómo
        de del desde donde dos durante e el ella ellas ello ellos en entre era eran eres es esa esas ese eso esos esta
        estaba estaban estado estamos estar estas este esto estos está están fue fuera fueron ha haber había habían
        hace hacer hacia han has hasta hay he incluso la las le les lo los luego me mediante mi mientras mis muy más
        mí ni no nos nosotros nuestra nuestras nuestro nuestros o os otra otras otro otros para pero poco por porque
        puede pueden pues que quien quienes quién qué se sea sean según ser será si sido siempre sin sino sobre son
        soy su sus suya suyo sí también tampoco tan tanto te tenía ti tiene tienen toda todas todavía todo todos tras
        tu tus tú u un una unas uno unos usted ustedes vosotros vuestra vuestro y ya yo él ésta éste
    """,
    "fi": """
        ainakin ei eivät eli emme en enemmän eniten ennen et ette että he heidän heille heissä heitä hyvin hän häneen
        hänelle hänen hänessä hänet häntä ikään itse ja jo johon joiden joihin joilla joille joissa joista joita joka
        jokin joko jolla jolle jonka jopa jos joskus jossa josta jota jotka jotta juuri kaikki kanssa kautta keiden
        keitä ken kenen kenet ketkä ketä koska kuin kuinka kuitenkin kun kuten kyllä lisäksi luona lähes me meidän
        meidät meille meissä meitä melko mihin miksi mikä millä minkä minulla minulle minun minussa minut minä missä
        mistä mitkä mitä mukaan mutta muu muun muut myös myöten ne niiden niihin niille niin niissä niistä niitä noin
        nuo nyt näiden näin nämä oikein olemme olen olet olette oli olisi olisivat olivat olla olleet ollut on ovat
        paitsi paljon pian poikki saakka samoin se sekä sen siellä siihen siinä siis siitä sille sillä sinne sinulla
        sinun sinut sinä siten sitten sitä taas tai te teidän teidät teitä toinen tuo tuohon tuon tuossa tuota tähän
        tällä tämä tämän tässä tästä tätä täällä vaan vai vaikka vain varsin vasta verran vielä voi voidaan voivat
        vuoksi yhä yli ympäri ääressä
    """,
    "fr": """
        a ai aie aient ainsi alors as au aucun aucune aura aurait aussi autre autres aux avaient avait avant avec avez
        avoir avons ayant beaucoup bien c car ce ceci cela celle celles celui ces cet cette ceux chaque chez ci comme
        comment d dans de depuis des deux donc dont du durant elle elles en encore entre es est et eu eux faire fait
        fois font furent fut hors il ils j je jusqu jusque l la le les leur leurs lors lorsque lui là m ma mais me mes
        moi moins mon même mêmes n ne ni nos notre nous on ont ou où par parce pas pendant peu peut peuvent plus
        plusieurs pour pourquoi puis qu quand que quel quelle quelles quelque quelques quels qui quoi s sa sans se
        sera serait ses si soit sommes son sont sous suis sur t ta tandis te tel telle tes toi ton tous tout toute
        toutes tu un une vers voici voilà vos votre vous y à ça étaient était étant été êtes être
    """,
    "hu": """
        a abban abból ahhoz ahogy ahol aki akik akkor akár alatt amely amelyek amelyet ami amíg annak arra arról az
        azok azon azonban azt aztán azután azzal azért be bele ben benne csak de e eddig egy egyes egyik egyre egyéb
        egész el ellen elég elő először előtt ennek erre ez ezek ezen ezt ezzel ezért fel felé ha hanem hiszen hogy
        hogyan hozzá ide igen ill illetve ilyen is ismét itt jobban kell kellett keresztül ki kívül között közül le
        legalább lehet lenne lenni lesz lett maga magát majd meg mellett mely melyek mert mi mikor mint mintha mit
        mivel most már más másik mégis nagyon ne nekem neki nem nincs néha néhány nélkül oda olyan ott pedig persze rá
        s saját sem semmi sok sokat szerint szinte számára talán te tehát teljes ti tovább továbbá több ugyanis után
        utána vagy vagyok vala valaki valami valamint van vannak vele vissza viszont volna volt voltak voltam által
        általában át én éppen és így össze úgy ő ők
    """,
    "id": """
        ada adalah agar akan anda antara apa apabila apakah atas atau bagi bahwa banyak beberapa belum bisa bukan
        dalam dan dapat dari daripada demikian dengan di dia hal hanya harus hingga ia ini itu jadi jika juga kalau
        kami kamu karena ke kemudian kepada ketika kita lagi lain lalu lebih maka mana masih melalui mereka merupakan
        namun nya oleh pada para per pernah pun saat saja salah sama sampai sangat satu saya sebagai sebelum sebuah
        secara sedang sehingga sejak seluruh semua seorang seperti sering serta sesuatu setelah setiap suatu sudah
        supaya tanpa telah tentang terhadap tersebut tetapi tidak untuk yaitu yakni yang
    """,
    "it": """
        a abbiamo ad agli ai al alcuna alcune alcuni alcuno all alla alle allo allora altra altre altri altro anche
        ancora avere aveva avevano avuto c che chi ci ciascuno cioè circa coi col come con contro cosa così cui d da
        dagli dai dal dall dalla dalle dallo degli dei del dell della delle dello dentro di dopo dove due durante e
        ecco ed era erano essa esse essere essi fa fino fra fu furono già gli ha hai hanno ho i il in infatti inoltre
        io l la le lei li lo loro lui ma me mentre mi mia mie miei mio molta molte molti molto ne negli nei nel nell
        nella nelle nello no noi non nostra nostre nostri nostro o ogni ognuno oltre oppure ora per perché perciò però
        piu più poco poi possono presso prima può qual qualche quale quali quando quanto quasi quella quelle quelli
        quello questa queste questi questo qui quindi sarà se sei sempre senza si sia siamo siano solo sono sopra
        sotto sta stata state stati stato stesso su sua sue sugli sui sul sull sulla sulle sullo suo suoi tale tali
        tanto te tra tu tua tue tuo tuoi tutta tutte tutti tutto un una uno v vengono verso vi viene voi vostra vostro
        è
    """,
    "nl": """
        aan al alle alleen als altijd andere ben bij binnen daar daarom dan dat de der deze die dit doch doen door dus
        een eens elk elke en er etc even ge geen geweest haar had hadden heb hebben heeft hem het hier hij hoe hun
        ieder iemand iets ik in is ja je jij jou jouw jullie kan kon kunnen maar me meer men met mij mijn moet moeten
        na naar niet niets nog nu of om omdat ons onze ook op over reeds sinds sommige te tegen ten ter terwijl
        tijdens toch toe tot tussen u uit uw van vanaf veel voor waar waarom wanneer want waren was wat we wel welke
        werd werden wezen wie wij wil worden wordt zal ze zelf zelfs zich zij zijn zo zoals zonder zou zouden zulke
    """,
    "no": """
        alle alt andre at av bare begge ble blei bli blir blitt både da de deg dei deim deira dem den denne der dere
        deres det dette di din disse ditt du då eg ein eit eller elles en enn er et etter for fordi fra frå før ha
        hadde han hans har hennar henne hennes her hjå ho hos hun hva hvem hver hvilke hvilken hvis hvor hvordan
        hvorfor i ikke ikkje ingen ingi inn inni ja jeg kan kom korleis kun kunne kva kvar kven man mange me med medan
        meg meget mellom men mens mer mest mi min mine mitt mot mykje må ned no noe noen noko nokon nokre nå når og
        også om opp oss over på samme seg selv si siden sin sine sitt sjøl skal skulle slik som så sånn til um under
        upp ut uten vart varte ved vere verte vi vil ville vore vors vår være vært å
    """,
    "pl": """
        a aby ale ani aż bardziej bardzo bez bo bowiem by być był była było były będzie będą choć ci cię co czy czyli
        czym dla dlaczego dlatego do gdy gdyby gdyż gdzie go i ich ile im inne inny innych iż ja jak jaka jaki jakie
        jako je jeden jednak jednym jego jej jemu jest jestem jeszcze jeśli jeżeli już ją każdy kiedy kilka kto która
        które którego której który których którym którzy ku lub ma mają mam mi mnie mną może można mu my na nad nam
        nami nas nasz nasza nasze natomiast nawet nic nich nie niego niej nim nimi niż no o obok od on ona one oni ono
        oraz pan po pod podczas ponad ponieważ poza przed przede przez przy również się skąd swoich swoim swoje swój
        są ta tak taki takie także tam te tego tej ten też to tobie tu tutaj twój ty tych tylko tym u w we według
        wiele więc wszystkich wszystkie wszystko właśnie z za zawsze ze został została zostały zł że żeby
    """,
    "pt": """
        a ao aos aquela aquelas aquele aqueles aquilo as assim até com como contra da das de dela delas dele deles
        depois desde dessa dessas desse desses desta destas deste destes disso do dois dos e ela elas ele eles em
        enquanto entre era eram essa essas esse esses esta estas estava estavam este estes estou está estão eu foi for
        foram fosse há isso isto já la lhe lhes lo mais mas me mesmo meu meus minha minhas muito muitos na nas nem
        nenhum nesta neste no nos nossa nossas nosso nossos num numa não nós o onde os ou outra outras outro outros
        para pela pelas pelo pelos perante pode podem pois por porque porém qual quando quanto que quem se seja sem
        sempre ser será seu seus si sido sob sobre somente sua suas são só tal também tampouco te tem tendo tenha ter
        teu teus teve tinha tinham tua tuas tudo tão têm um uma umas uns você vocês vos vosso à às é
    """,
    "ro": """
        a abia acea aceasta această aceea acei aceia acel acela acele acelea acest acesta aceste acestea acestei
        acestor acestora acestui aceşti acolo acum ai aici al ale alt alta alte altul altă alți am anume ar are as
        asemenea asta astfel au avea avem avut aşa aș așa ba bine ca care ce cea ceea cei cel cele celor chiar ci cine
        cineva cu cum când câte câteva câți că căci căreia cărora căruia către da dacă dar dat de deci decât deja
        deoarece despre deşi deși din dintr dintre doar după e ea ei el ele era erau este eu fapt fel fi fie fiecare
        fiind foarte fost fără i iar ii il la le li lor lui lângă mai mea mei mele meu mi mine mod mult multe mulți mă
        ne nici nimeni nimic nişte niște noastre noastră noi nostru nu numai o ori oricare orice pe pentru peste poate
        pot prea prin printr până sa sau se sub sunt să săi său te toate toată tot totuşi totuși toţi toți tu un una
        unde unei unele uneori unii unor unu unui unul va vei voastră voi vom vor vostru vă îi îl îmi împotriva în
        înainte încât încă într între îşi îţi își îți şi ș și ți
    """,
    "ru": """
        а без более больше будет будто бы был была были было быть в вам вас весь во вот все всегда всего всей всем
        всех всю вы где да даже для до друг другие другой его ее если есть еще ещё её же за здесь и из или им иногда
        их к каждый как какая какой ко когда конечно которая которого которое которой котором которую которые который
        которых кто куда ли лишь между меня мне много может можно мой моя мы на над надо нас наш наша не него нее ней
        нельзя нет ни нибудь никогда ним них ничего но ну о об один однако он она они оно от очень перед по под после
        потом потому почти при про раз с сам самый свое своего своей своих свой свою себе себя со совсем так также
        такие такой там тебя тем теперь то тогда того тоже той только том тот тут ты у уж уже хорошо хоть хотя чего
        чей чем через что чтоб чтобы чуть эта эти этим этих это этого этой этом этот эту я является являются
    """,
    "sv": """
        alla allt alltså andra att av bara bland blev bli blir blivit både de dem den denna deras dess dessa det detta
        dig din dina ditt dock du där därför då efter eftersom ej eller en enligt er era ert ett fick finns for fram
        från få får för före genom ha hade han hans har henne hennes hon honom hos hur här i icke in inga ingen inget
        innan inte jag ju kan kommer kunde kunna man med medan mellan men mer mest mig min mina mitt mot mycket måste
        ni nu när nära någon något några och också olika om oss på redan samma sedan sig sin sina sitt själv ska skall
        skulle som så sådan sådana såsom till tills under upp ut utan vad var vara varför varit varje vars vem vi vid
        vilka vilken vilket vill än är även åt över
    """,
    "tr": """
        acaba ama ancak artık asla aslında az bana bazen bazı belki ben benden beni benim beri bile bir biraz biri
        birkaç birçok biz bize bizi bizim bu buna bunda bundan bunlar bunları bunların bunu bunun burada böyle bütün
        da daha dahi de defa değil diye diğer dolayı dolayısıyla edecek eden ederek edilen ediyor en etmek etti eğer
        fakat gibi göre hala halen hangi hatta hem henüz hep hepsi her herhangi hiç hiçbir ile ilgili ise için işte
        kadar karşın kendi kendine kendini ki kim kimse mi mu mü mı nasıl ne neden nedenle nerede nereye niye niçin o
        olan olarak oldu olduğu olduğunu olması olmayan olsa olsun olup olur ona ondan onlar onlara onları onların onu
        onun orada oysa pek rağmen sadece sana sanki sen senden seni senin siz size sizi sizin sonra tarafından tüm
        var ve veya ya yani yapılan yerine yine yoksa zaten çok çünkü önce öyle üzere şayet şekilde şey şimdi şu şunu
        şöyle
    """,
}


@cache
def stop_words(language: str) -> frozenset[str]:
    """The stop words of a language; none for one that is not known.

    >>> "of" in stop_words("en"), "new" in stop_words("english")
    (True, False)
    """
    return frozenset(_STOP_WORDS.get(language_code(language), "").split())


# Japanese is cut into pairs of characters, whatever the topic's language: those of its particles, endings and small
# words say nothing. Kanji with a verb's or a noun's ending (飲み, 祭り) and whole words in kana (すし) stay.
_PARTICLES = frozenset("のはがをにでともやかなへ")
_PREFIXES = frozenset("おご")  # お茶, ご飯
_FUNCTION_BIGRAMS = frozenset(
    """
    です ます した して する され せる いる いた いて いう ある あり あっ った って てい てき てお れる
    れた れて られ なる なり なっ ない なく ので のに のは のが のを のも には にも では でも とは とも
    へと から かつ まで より ほど だけ など なの こと とが もの ため よう うに うな とい とし とき この
    その あの どの これ それ どれ ここ そこ どこ また たり だっ だが んだ まし しま しい しく しょ ょう
    せん たち らの らに らは によ よる よっ につ つい にお おい おけ ける けて すべ べて でき きる きた
    えた えて える めに めた める であ いで だろ ろう たが いま おり せた させ れば けれ れど ども がら
    なが ても たと
    """.split()
)


def is_function_bigram(word: str) -> bool:
    """Is a pair of characters of Japanese or Chinese nothing but what joins words?

    >>> [word for word in ("お茶", "茶の", "の種", "種類", "すし", "です") if not is_function_bigram(word)]
    ['お茶', '種類', 'すし']
    """
    kana = ["\u3041" <= char <= "\u309f" for char in word]
    if len(word) > 2 or not any(kana):
        return len(word) == 2 and "的" in word
    if all(kana):
        return len(word) == 1 or "を" in word or word in _FUNCTION_BIGRAMS
    return word[1] in _PARTICLES if kana[1] else word[0] not in _PREFIXES


def stop_word_languages() -> list[str]:
    """The codes of all languages that have stop words here."""
    return list(_STOP_WORDS)
