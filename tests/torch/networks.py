"""Small networks of many architectures, for tests and tables: NETWORKS[name]() is (model, args, kwargs, optimizer)."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

CLASSES = 10


class Classifier(nn.Module):
    """Cross-entropy of a network's scores."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x, labels):
        return F.cross_entropy(self.layers(x), labels)


def images(batch, size, channels=3):
    return torch.randn(batch, channels, size, size), torch.randint(CLASSES, (batch,))


def ids(vocabulary, batch, length):
    tokens = torch.randint(3, vocabulary, (batch, length))
    return {"input_ids": tokens, "labels": tokens}


def head(channels):
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)


def conv(inputs, outputs, kernel=3, stride=1, groups=1):
    return (nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True))


# ---- Without convolutions

def mlp():
    return Classifier(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.GELU(),
                      nn.Linear(2048, CLASSES)), (torch.randn(4096, 512), torch.randint(CLASSES, (4096,))), {}, "adam"


def mlp_dropout():
    layers = []
    for _ in range(5):
        layers += [nn.Linear(1024, 1024), nn.LayerNorm(1024), nn.ReLU(inplace=True), nn.Dropout(0.2)]
    return Classifier(*layers, nn.Linear(1024, CLASSES)), (torch.randn(2048, 1024), torch.randint(CLASSES, (2048,))), {}, "sgd"


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20000, 64) for _ in range(6))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(7 * 64 + 49, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, dense, sparse, labels):
        rows = torch.stack([self.bottom(dense), *(table(sparse[:, i]) for i, table in enumerate(self.tables))], 1)
        pairs = torch.bmm(rows, rows.transpose(1, 2))
        scores = self.top(torch.cat([rows.flatten(1), pairs.flatten(1)], 1)).squeeze(1)
        return F.binary_cross_entropy_with_logits(scores, labels)


def recommender():
    return Recommender(), (torch.randn(8192, 13), torch.randint(20000, (8192, 6)), torch.rand(8192)), {}, "adam"


class MixerBlock(nn.Module):
    def __init__(self, patches, channels):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.tokens = nn.Sequential(nn.Linear(patches, 128), nn.GELU(), nn.Linear(128, patches))
        self.channels = nn.Sequential(nn.Linear(channels, 512), nn.GELU(), nn.Linear(512, channels))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 192, 8, 8)
        self.blocks = nn.Sequential(*(MixerBlock(144, 192) for _ in range(4)))
        self.score = nn.Linear(192, CLASSES)

    def forward(self, x, labels):
        x = self.blocks(self.patches(x).flatten(2).transpose(1, 2))
        return F.cross_entropy(self.score(x.mean(1)), labels)


def mixer():
    return Mixer(), images(32, 96), {}, "adamw"


class Experts(nn.Module):
    """Each token goes to two of the experts, whose weights are one tensor."""

    def __init__(self, width, hidden, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * 0.02)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * 0.02)

    def forward(self, x):
        weights = self.router(x).softmax(-1)
        best, chosen = weights.topk(2, -1)
        gates = torch.zeros_like(weights).scatter(-1, chosen, best)
        hidden = F.silu(torch.einsum("td,edh->eth", x, self.up))
        return torch.einsum("eth,ehd,te->td", hidden, self.down, gates)


def experts():
    layers = []
    for _ in range(3):
        layers += [nn.LayerNorm(256), Experts(256, 512, 4)]
    return Classifier(*layers, nn.Linear(256, CLASSES)), (torch.randn(2048, 256), torch.randint(CLASSES, (2048,))), {}, "adamw"


# ---- Convolutions

def cnn():
    layers, channels = [], 3
    for width in (32, 64, 128):
        layers += [*conv(channels, width), nn.MaxPool2d(2)]
        channels = width
    return Classifier(*layers, *head(channels)), images(24, 96), {}, "sgd"


def vgg():
    layers, channels = [], 3
    for width, repeats in ((32, 2), (64, 2), (128, 3)):
        for _ in range(repeats):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return Classifier(*layers, nn.Flatten(), nn.Linear(channels * 64, 1024), nn.ReLU(inplace=True), nn.Dropout(),
                      nn.Linear(1024, CLASSES)), images(24, 64), {}, "momentum"


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride, bottleneck=False):
        super().__init__()
        width = outputs // 4 if bottleneck else outputs
        layers = [*conv(inputs, width, 1), *conv(width, width, 3, stride)] if bottleneck else [*conv(inputs, width, 3, stride)]
        kernel = 1 if bottleneck else 3
        self.body = nn.Sequential(*layers, *conv(width, outputs, kernel)[:2])
        self.skip = nn.Sequential(*conv(inputs, outputs, 1, stride)[:2]) if stride > 1 or inputs != outputs else nn.Identity()
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.body(x)
        y += self.skip(x)
        return self.activation(y)


def resnet():
    return Classifier(*conv(3, 32), Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 64, 1), Residual(64, 128, 2),
                      *head(128)), images(24, 64), {}, "momentum"


def resnet_bottleneck():
    return Classifier(*conv(3, 64), nn.MaxPool2d(3, 2, 1), Residual(64, 256, 1, True), Residual(256, 256, 1, True),
                      Residual(256, 512, 2, True), *head(512)), images(24, 64), {}, "sgd"


class Dense(nn.Module):
    def __init__(self, inputs, growth):
        super().__init__()
        self.layers = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), nn.Conv2d(inputs, growth, 3, padding=1))

    def forward(self, x):
        return torch.cat([x, self.layers(x)], 1)


def densenet():
    layers, channels = [nn.Conv2d(3, 32, 3, padding=1)], 32
    for _ in range(2):
        for _ in range(4):
            layers.append(Dense(channels, 16))
            channels += 16
        layers += [*conv(channels, channels // 2, 1), nn.AvgPool2d(2)]
        channels //= 2
    return Classifier(*layers, *head(channels)), images(16, 64), {}, "sgd"


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(nn.Sequential(*conv(i, o), *conv(o, o)) for i, o in ((3, 16), (16, 32), (32, 64)))
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, i // 2, 2, 2) for i in (64, 32))
        self.merge = nn.ModuleList(nn.Sequential(*conv(i, i // 2), *conv(i // 2, i // 2)) for i in (64, 32))
        self.score = nn.Conv2d(16, CLASSES, 1)

    def forward(self, x, labels):
        kept = []
        for i, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, merge, skip in zip(self.up, self.merge, kept[-2::-1]):
            x = merge(torch.cat([skip, up(x)], 1))
        return F.cross_entropy(self.score(x), labels)


def unet():
    return UNet(), (torch.randn(8, 3, 96, 96), torch.randint(CLASSES, (8, 96, 96))), {}, "adam"


class Inception(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.branches = nn.ModuleList([
            nn.Sequential(*conv(inputs, width, 1)), nn.Sequential(*conv(inputs, width, 1), *conv(width, width, 3)),
            nn.Sequential(*conv(inputs, width, 1), *conv(width, width, 5)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), *conv(inputs, width, 1))])

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def inception():
    return Classifier(*conv(3, 32, 3, 2), Inception(32, 32), Inception(128, 32), nn.MaxPool2d(2), Inception(128, 64),
                      *head(256)), images(24, 96), {}, "momentum"


class Inverted(nn.Module):
    """Depthwise convolution and squeeze-excitation, with activations in place."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        wide = 4 * inputs
        self.expand = nn.Sequential(*conv(inputs, wide, 1)[:2], nn.Hardswish(inplace=True))
        self.depthwise = nn.Sequential(*conv(wide, wide, 3, stride, wide)[:2], nn.Hardswish(inplace=True))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, wide // 4, 1), nn.ReLU(inplace=True),
                                     nn.Conv2d(wide // 4, wide, 1), nn.Hardsigmoid(inplace=True))
        self.project = nn.Sequential(*conv(wide, outputs, 1)[:2])
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x):
        y = self.depthwise(self.expand(x))
        y = self.project(y * self.squeeze(y))
        return x + y if self.is_residual else y


def mobilenet():
    return Classifier(*conv(3, 16, 3, 2), Inverted(16, 24, 1), Inverted(24, 24, 1), Inverted(24, 40, 2), Inverted(40, 40, 1),
                      *head(40)), images(16, 128), {}, "momentum"


class Frozen(nn.Module):
    """A trained network's features, computed and masked in place, below a new classifier."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.Hardtanh(inplace=True)).requires_grad_(False)
        self.head = nn.Sequential(nn.AvgPool2d(32), nn.Flatten(), nn.Linear(16 * 64, CLASSES))

    def forward(self, x, labels):
        y = self.features(x)
        y[:, :, :16] = 0
        y[:, 1].mul_(0.5)
        return F.cross_entropy(self.head(y.sigmoid_()), labels)


def frozen():
    return Frozen(), images(4, 256), {}, "sgd"


def generator():
    layers, channels = [nn.ConvTranspose2d(100, 256, 4, 1, 0), nn.BatchNorm2d(256), nn.ReLU(True)], 256
    for width in (128, 64, 32):
        layers += [nn.ConvTranspose2d(channels, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.LeakyReLU(0.2, True)]
        channels = width
    return nn.Sequential(*layers, nn.ConvTranspose2d(channels, 3, 4, 2, 1), nn.Tanh()), (torch.randn(64, 100, 1, 1),), {}, "adam"


# ---- Recurrent

class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embedding = nn.Embedding(5000, 256)
        self.recurrent = kind(256, 384, 2, batch_first=True)
        self.score = nn.Linear(384, 5000)

    def forward(self, tokens):
        scores = self.score(self.recurrent(self.embedding(tokens))[0])
        return F.cross_entropy(scores.flatten(0, 1), tokens.flatten())


def lstm():
    return Recurrent(nn.LSTM), (torch.randint(5000, (16, 32)),), {}, "sgd"


def gru():
    return Recurrent(nn.GRU), (torch.randint(5000, (16, 32)),), {}, "adam"


# ---- Transformers

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(4000, 256)
        layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.score = nn.Linear(256, 4000)

    def forward(self, tokens):
        scores = self.score(self.encoder(self.embedding(tokens)))
        return F.cross_entropy(scores.flatten(0, 1), tokens.flatten())


def encoder():
    return Encoder(), (torch.randint(4000, (8, 128)),), {}, "adam"


class EncoderDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(4000, 256)
        self.transformer = nn.Transformer(256, 4, 2, 2, 1024, dropout=0.0, batch_first=True)
        self.score = nn.Linear(256, 4000)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = self.transformer(self.embedding(source), self.embedding(target), tgt_mask=mask, tgt_is_causal=True)
        return F.cross_entropy(self.score(hidden).flatten(0, 1), target.flatten())


def encoder_decoder():
    return EncoderDecoder(), (torch.randint(4000, (8, 128)), torch.randint(4000, (8, 128))), {}, "adamw"


def _causal(name, optimizer="adamw", vocabulary=8000, batch=4, length=256, checkpointing=False, **options):
    import transformers

    config = getattr(transformers, name + "Config")(vocab_size=vocabulary, bos_token_id=1, eos_token_id=2, pad_token_id=0,
                                                    **options)
    config.use_cache = False
    model = getattr(transformers, name + ("ForCausalLM" if name != "GPT2" else "LMHeadModel"))(config)
    if checkpointing:
        model.activation_checkpointing_enable()
    return model, (), ids(vocabulary, batch, length), optimizer


def gpt2(**options):
    return _causal("GPT2", **({"n_positions": 256, "n_embd": 256, "n_layer": 4, "n_head": 4} | options))


def gpt_neox():
    return _causal("GPTNeoX", "adam", hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4,
                   max_position_embeddings=256, vocabulary=2000)


def opt():
    return _causal("OPT", "sgd", hidden_size=256, word_embed_proj_dim=256, ffn_dim=1024, num_hidden_layers=4,
                   num_attention_heads=4, max_position_embeddings=256)


def llama(**options):
    return _causal("Llama", **({"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4,
                                "num_attention_heads": 4, "num_key_value_heads": 2} | options))


def qwen3():
    return _causal("Qwen3", hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=4, head_dim=64,
                   num_key_value_heads=2, vocabulary=1000, batch=8)


def gemma():
    return _causal("Gemma2", hidden_size=256, intermediate_size=688, num_hidden_layers=3, num_attention_heads=4, head_dim=64,
                   num_key_value_heads=2, length=128)


def mamba():
    return _causal("Mamba", hidden_size=128, num_hidden_layers=2, state_size=8, batch=2, length=64, vocabulary=1000)


def mixtral():
    return _causal("Mixtral", hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=4,
                   num_key_value_heads=2, num_local_experts=4, length=128)


def bert():
    import transformers

    config = transformers.BertConfig(vocab_size=8000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                                     intermediate_size=1024)
    return transformers.BertForMaskedLM(config), (), ids(8000, 8, 128), "adamw"


def albert():
    import transformers

    config = transformers.AlbertConfig(vocab_size=4000, embedding_size=128, hidden_size=256, num_hidden_layers=4,
                                       num_attention_heads=4, intermediate_size=1024)
    return transformers.AlbertForMaskedLM(config), (), ids(4000, 8, 128), "adam"


def t5():
    import transformers

    config = transformers.T5Config(vocab_size=8000, d_model=256, d_kv=64, d_ff=1024, num_layers=3, num_heads=4,
                                   decoder_start_token_id=0, use_cache=False)
    return transformers.T5ForConditionalGeneration(config), (), ids(8000, 8, 64), "adam"


def vit():
    import transformers

    config = transformers.ViTConfig(hidden_size=192, num_hidden_layers=4, num_attention_heads=4, intermediate_size=768,
                                    image_size=96, patch_size=8, num_labels=CLASSES)
    pixels, labels = images(16, 96)
    return transformers.ViTForImageClassification(config), (), {"pixel_values": pixels, "labels": labels}, "adamw"


def swin():
    import transformers

    config = transformers.SwinConfig(image_size=96, patch_size=4, embed_dim=48, depths=[2, 2], num_heads=[2, 4], window_size=6,
                                     num_labels=CLASSES)
    pixels, labels = images(12, 96)
    return transformers.SwinForImageClassification(config), (), {"pixel_values": pixels, "labels": labels}, "adamw"


def convnext():
    import transformers

    config = transformers.ConvNextConfig(hidden_sizes=[48, 96, 192], depths=[2, 2, 2], num_stages=3, num_labels=CLASSES,
                                         image_size=96)
    pixels, labels = images(24, 96)
    return transformers.ConvNextForImageClassification(config), (), {"pixel_values": pixels, "labels": labels}, "adamw"


def whisper():
    import transformers

    config = transformers.WhisperConfig(vocab_size=4000, d_model=192, encoder_layers=2, decoder_layers=2, num_mel_bins=80,
                                        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=768,
                                        decoder_ffn_dim=768, max_source_positions=300, max_target_positions=64, use_cache=False,
                                        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
                                        suppress_tokens=None, begin_suppress_tokens=None)
    return transformers.WhisperForConditionalGeneration(config), (), {
        "input_features": torch.randn(8, 80, 600), "labels": torch.randint(3, 4000, (8, 64))}, "adamw"


# ---- Activation checkpointing and autocast

class Checkpointed(nn.Module):
    """Recomputes each of the parts in the backward pass."""

    def __init__(self, first, parts, last, use_reentrant):
        super().__init__()
        self.first, self.parts, self.last = first, nn.ModuleList(parts), last
        self.use_reentrant = use_reentrant

    def forward(self, x, labels):
        x = self.first(x)
        for part in self.parts:
            x = checkpoint(part, x, use_reentrant=self.use_reentrant)
        return F.cross_entropy(self.last(x), labels)


def resnet_checkpointed():
    parts = [Residual(32, 32, 1), Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 64, 1)]
    return Checkpointed(nn.Sequential(*conv(3, 32)), parts, nn.Sequential(*head(64)), False), images(24, 64), {}, "momentum"


def mlp_checkpointed(width=512):
    parts = [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width)) for _ in range(4)]
    return Checkpointed(nn.Linear(64, width), parts, nn.Linear(width, CLASSES), True), (
        torch.randn(4096, 64), torch.randint(CLASSES, (4096,))), {}, "adam"


def llama_checkpointed(**options):
    return llama(**({"checkpointing": True, "vocabulary": 500, "num_hidden_layers": 6, "batch": 8} | options))


def gpt2_checkpointed(**options):
    return gpt2(**({"checkpointing": True, "vocabulary": 500, "n_layer": 6, "batch": 8} | options))


class Autocast(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *args, **kwargs):
        with torch.autocast("cpu", torch.bfloat16):
            return self.model(*args, **kwargs)


def _autocast(made):
    model, args, kwargs, optimizer = made
    return Autocast(model), args, kwargs, optimizer


def mlp_autocast():
    return _autocast(mlp())


def llama_autocast():
    return _autocast(llama())


def vit_autocast():
    return _autocast(vit())


NETWORKS = {function.__name__: function for function in (
    mlp, mlp_dropout, recommender, mixer, experts, cnn, vgg, resnet, resnet_bottleneck, densenet, unet, inception, mobilenet, frozen,
    generator, lstm, gru, encoder, encoder_decoder, gpt2, gpt_neox, opt, llama, qwen3, gemma, mamba, mixtral, bert, albert, t5,
    vit, swin, convnext, whisper, resnet_checkpointed, mlp_checkpointed, llama_checkpointed, gpt2_checkpointed, mlp_autocast,
    llama_autocast, vit_autocast)}
