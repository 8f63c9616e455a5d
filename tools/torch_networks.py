"""The networks that packages for PyTorch build from a configuration, with few layers, and arguments of one call of each.

A network's widths are those of its default configuration, since parts of a configuration depend on each other; only its
layers are fewer. It is built without memory where its package can do that (torch.device("meta")).
"""
from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.util
import inspect
import os
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
# Its checks compare values of tensors, which tensors without memory do not have.
os.environ.setdefault("TRANSFORMERS_DISABLE_TORCH_CHECK", "1")

import torch  # noqa: E402
from torch import nn  # noqa: E402

BATCH = 2
LENGTH = 32  # of a text, in tokens


@dataclass
class Call:
    """One call of a model. what: which of its inputs it has."""
    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    what: str = ""


@dataclass(frozen=True)
class Network:
    """calls: what may work, best first. An exception that it raises says why there are no more."""
    library: str
    name: str
    calls: Callable[[], Iterator[Call]]


def networks() -> list[Network]:
    """Those of all packages that are installed, one for each folder or file that defines models."""
    found: list[Network] = []
    for package, list_them in (("transformers", of_transformers), ("torchvision", of_torchvision), ("timm", of_timm),
                               ("torch_geometric", of_torch_geometric)):
        if importlib.util.find_spec(package) is not None:
            found += list_them()
    return found


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.long)


def floats(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


# ---- transformers

# The first of these that a model is in decides for which task it is built.
TASKS = ["CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "SPEECH_SEQ_2_SEQ", "MULTIMODAL_LM", "MASKED_LM",
         "CTC", "TEXT_TO_WAVEFORM", "TEXT_TO_SPECTROGRAM", "IMAGE_CLASSIFICATION", "VIDEO_CLASSIFICATION",
         "AUDIO_CLASSIFICATION", "SEMANTIC_SEGMENTATION", "UNIVERSAL_SEGMENTATION", "INSTANCE_SEGMENTATION",
         "OBJECT_DETECTION", "ZERO_SHOT_OBJECT_DETECTION", "DEPTH_ESTIMATION", "SEQUENCE_CLASSIFICATION",
         "QUESTION_ANSWERING", "PRETRAINING", None, "ZERO_SHOT_IMAGE_CLASSIFICATION", "MASK_GENERATION",
         "IMAGE_TO_IMAGE", "TIME_SERIES_PREDICTION", "KEYPOINT_DETECTION", "KEYPOINT_MATCHING", "POSE_ESTIMATION",
         "VISUAL_QUESTION_ANSWERING", "BACKBONE"]
LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_encoder_layers", "encoder_layers",
          "decoder_layers", "num_decoder_layers", "encoder_num_layers", "decoder_num_layers", "depth", "num_blocks",
          "encoder_depth", "decoder_depth", "num_encoder_blocks_", "num_hidden_groups_", "decoder_num_hidden_layers",
          "num_attention_layers", "n_encoder_layers", "n_decoder_layers", "encoder_num_hidden_layers", "layers",
          "num_fusion_layers", "predictor_num_hidden_layers", "pred_num_hidden_layers")
LISTS = ("depths", "num_conv_layers_", "layers", "encoder_depths", "decoder_depths", "stage_depths", "num_blocks")
FEW = 2
# Where the dropping of whole layers is a choice of the program, no two steps are the same.
CERTAIN = {"layerdrop": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "use_cache": False,
           "mask_time_prob": 0.0, "apply_spec_augment": False, "use_pretrained_backbone": False,
           "drop_path_rate": 0.0, "layer_drop": 0.0}


def of_transformers() -> list[Network]:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES, model_type_to_module_name

    types: dict[str, list[str]] = {}
    for kind in CONFIG_MAPPING_NAMES:
        types.setdefault(model_type_to_module_name(kind), []).append(kind)
    root = os.path.dirname(importlib.import_module("transformers.models").__file__ or "")
    found = []
    for _, folder, is_package in sorted(pkgutil.iter_modules([root])):
        has_model = is_package and any(name.startswith("modeling_") for name in os.listdir(os.path.join(root, folder)))
        if has_model and folder != "auto":
            def calls(folder: str = folder, kinds: list[str] = types.get(folder, [])) -> Iterator[Call]:
                return transformers_calls(folder, kinds)
            found.append(Network("transformers", folder, calls))
    assert transformers.__version__
    return found


def transformers_calls(folder: str, kinds: list[str]) -> Iterator[Call]:
    errors: list[Exception] = []
    for kind, name in classes_of(folder, kinds):
        try:
            model = transformers_model(kind, name)
        except Exception as error:
            errors.append(error)
            continue
        yield from calls_of(model)
    if errors:
        raise errors[0]
    if not kinds:
        raise ValueError("it has no configuration of its own")


def classes_of(folder: str, kinds: list[str]) -> list[tuple[str, str]]:
    """Pairs of a type of configuration and the name of a class that takes it, best first."""
    from transformers.models.auto import modeling_auto

    ordered = sorted(kinds, key=lambda kind: (kind.replace("-", "_") != folder, len(kind)))
    found: list[tuple[str, str]] = []
    for kind in ordered:
        for task in TASKS:
            mapping = getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES" if task else "MODEL_MAPPING_NAMES")
            name = mapping.get(kind)
            for each in name if isinstance(name, (tuple, list)) else [name] if name else []:
                if (kind, each) not in found:
                    found.append((kind, each))
    # Two tasks of the main type, its bare model, and then parts of it.
    main = [pair for pair in found if pair[0] == found[0][0]]
    return main[:3] + [pair for pair in found if pair not in main][:1] if found else []


def transformers_model(kind: str, name: str) -> nn.Module:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    cls = getattr(transformers, name)
    config_class = CONFIG_MAPPING[kind]
    errors = []
    for config in configurations(config_class):
        try:
            with torch.device("meta"):
                model = cls(config)
            return model.train()
        except Exception as error:
            errors.append(error)
    raise errors[0]


def configurations(config_class: Any) -> Iterator[Any]:
    """The default configuration with few layers, of which the last one or all are outputs, with two layers of each kind
    for networks whose layers share weights, and as it is."""
    for made in (lambda: reduced(config_class, True), lambda: reduced(config_class, False),
                 lambda: reduced(config_class, True, of_each=2), config_class):
        try:
            yield made()
        except Exception:
            if made is config_class:
                raise


def reduced(config_class: Any, last: bool, of_each: int = 1) -> Any:
    """last: backbones return their last layer, not those of the default configuration. of_each: layers of each kind."""
    return composed(config_class) if needs_parts(config_class) else config_class(**smaller(config_class(), last, of_each))


def needs_parts(config_class: Any) -> bool:
    try:
        config_class()
    except Exception:
        return True
    return False


def composed(config_class: Any) -> Any:
    """Configurations that are made of an encoder's and a decoder's."""
    import transformers

    text = {"num_hidden_layers": FEW}
    parts = {
        "encoder-decoder": (transformers.BertConfig(**text),
                            transformers.BertConfig(**text, is_decoder=True, add_cross_attention=True)),
        "vision-encoder-decoder": (transformers.ViTConfig(**text),
                                   transformers.GPT2Config(n_layer=FEW, add_cross_attention=True)),
        "speech-encoder-decoder": (transformers.Wav2Vec2Config(**text, **{k: v for k, v in CERTAIN.items() if k in (
            "layerdrop", "mask_time_prob", "apply_spec_augment")}),
            transformers.BertConfig(**text, is_decoder=True, add_cross_attention=True)),
    }
    if config_class.model_type in parts:
        encoder, decoder = parts[config_class.model_type]
        config = config_class.from_encoder_decoder_configs(encoder, decoder)
        config.pad_token_id, config.decoder_start_token_id = 0, 1
        return config
    if config_class.model_type == "vision-text-dual-encoder":
        return config_class.from_vision_text_configs(transformers.CLIPVisionConfig(**text), transformers.BertConfig(**text))
    return config_class()


def smaller(config: Any, last: bool, of_each: int = 1) -> dict[str, Any]:
    """Keyword arguments that make a configuration like this one with fewer layers, also of its parts."""
    from transformers import PretrainedConfig

    values = {key: value for key, value in vars(config).items() if not key.startswith("_")}
    changed: dict[str, Any] = {}
    counts = [values[name] for name in LAYERS if type(values.get(name)) is int]
    few = FEW
    for value in values.values():  # enough layers of each kind
        if isinstance(value, (list, tuple)) and len(value) in counts and all(isinstance(each, str) for each in value):
            places = [[i for i, kind in enumerate(value) if kind == each] for each in set(value)]
            few = max([few, *(1 + where[:of_each][-1] for where in places)])
    for key, value in values.items():
        if isinstance(value, PretrainedConfig):
            changed[key] = {**value.to_dict(), **smaller(value, last, of_each)}
            if value.model_type:
                changed[key]["model_type"] = value.model_type
        elif key in LAYERS and type(value) is int and value > few:
            changed[key] = few
        elif key in LISTS and isinstance(value, (list, tuple)) and all(type(each) is int for each in value):
            changed[key] = type(value)(min(each, FEW) for each in value)
        elif isinstance(value, (list, tuple)) and len(value) > few and len(value) in counts and \
                all(isinstance(each, (str, int)) for each in value):
            changed[key] = type(value)(value[:few])
        elif key in CERTAIN:
            changed[key] = CERTAIN[key]
        elif key == "prediction_length" and value is None:
            changed[key] = LENGTH
        elif key == "num_attention_heads" and type(value) is int and values.get("hidden_size", 0) % value:
            changed[key] = next(heads for heads in range(value, 0, -1) if values["hidden_size"] % heads == 0)
    if last and changed and getattr(config, "out_features", None) is not None:
        changed.update(out_features=None, out_indices=None)
    return changed


def part(config: Any, *names: str) -> Any:
    """The first value of these names in a configuration or in its parts."""
    from transformers import PretrainedConfig

    for name in names:
        value = getattr(config, name, None)
        if value is not None and not isinstance(value, PretrainedConfig):
            return value
    for value in vars(config).values():
        if isinstance(value, PretrainedConfig):
            inner = part(value, *names)
            if inner is not None:
                return inner
    return None


def vision_of(config: Any) -> Any:
    for name in ("vision_config", "backbone_config", "visual_config", "vit_config", "image_config", "encoder"):
        value = getattr(config, name, None)
        if value is not None and not isinstance(value, dict):
            return value
    return config


def first(value: Any, default: int) -> int:
    while isinstance(value, (list, tuple)):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get("height") or value.get("shortest_edge")
    return int(value) if isinstance(value, (int, float)) else default


def shape_of_images(config: Any) -> tuple[int, int, int]:
    vision = vision_of(config)
    size = part(vision, "image_size", "img_size", "input_size", "pretrained_img_size")
    height, width = (size[0], size[1]) if isinstance(size, (list, tuple)) and len(size) == 2 else [first(size, 224)] * 2
    channels = first(part(vision, "num_channels", "in_channels", "in_chans"), 3)
    return channels, first(height, 224), first(width, 224)


def images(config: Any) -> list[tuple[str, dict[str, torch.Tensor]]]:
    """Images in the ways in which models take them, best known first."""
    channels, height, width = shape_of_images(config)
    vision = vision_of(config)
    patch = first(part(vision, "patch_size"), 16)
    temporal = first(part(vision, "temporal_patch_size"), 0)
    frames = first(part(config, "num_frames"), 8)
    merge = first(part(vision, "spatial_merge_size"), 1)
    side = 4 * merge
    found = [("image", {"pixel_values": floats(BATCH, channels, height, width)}),
             ("video", {"pixel_values": floats(BATCH, frames, channels, height, width)}),
             ("images of parts", {"pixel_values": floats(BATCH, 3, channels, height, width),
                                  "image_sizes": torch.tensor([[height, width]] * BATCH)}),
             ("patches", {"pixel_values": floats(BATCH, 64, channels * patch * patch),
                          "pixel_attention_mask": torch.ones(BATCH, 64, dtype=torch.long),
                          "spatial_shapes": torch.tensor([[8, 8]] * BATCH)}),
             ("flat patches", {"pixel_values": floats(side * side, channels * max(temporal, 1) * patch * patch),
                               "image_grid_thw": torch.tensor([[1, side, side]])})]
    if temporal:
        found.insert(0, found.pop())
    return found


def sounds(config: Any) -> list[tuple[str, dict[str, torch.Tensor]]]:
    audio = next((value for name in ("audio_config", "speech_config", "encoder_config", "audio_encoder_config",
                                     "encoder", "audio_encoder")
                  if (value := getattr(config, name, None)) is not None and not isinstance(value, (dict, int))), config)
    bins = first(part(audio, "num_mel_bins", "feature_size", "input_feat_per_channel", "input_dim", "feat_dim"), 80)
    length = 2 * first(part(audio, "max_source_positions"), 64)
    length = length if length <= 4000 else 128
    frames = first(part(audio, "max_length"), 128)
    return [("sound", {"input_features": floats(BATCH, bins, length)}),
            ("sound by time", {"input_features": floats(BATCH, 128, bins)}),
            ("waveform", {"input_values": floats(BATCH, 16000)}),
            ("waveform of channels", {"input_values": floats(BATCH, 1, 16000)}),
            ("spectrogram", {"input_values": floats(BATCH, frames, bins)}),
            ("features", {"input_features": floats(BATCH, 1, 1001, 64), "is_longer": torch.tensor([[False]] * BATCH)})]


def calls_of(model: nn.Module) -> Iterator[Call]:
    """Calls of a model of transformers by the names of what its `forward` takes."""
    names = inspect.signature(model.forward).parameters
    config = model.config
    own = getattr(model, "main_input_name", "input_ids")
    choices: list[tuple[str, dict[str, torch.Tensor]]] = []
    text = {"input_ids": zeros(BATCH, LENGTH)} if "input_ids" in names else {}
    if "pixel_values" in names:
        choices += [(what, {**text, **each}) for what, each in images(config)]
    if "pixel_values_videos" in names and "pixel_values" not in names:
        frames = first(part(config, "frames_per_clip", "num_frames"), 8)
        choices += [("video", {**text, "pixel_values_videos": floats(BATCH, frames, *shape_of_images(config))})]
    if "input_features" in names or "input_values" in names:
        choices += [(what, {**text, **each}) for what, each in sounds(config)]
    if text:
        choices = choices + [("text", text)] if choices else [("text", text)]
    if own == "input_ids" and text and len(choices) > 1 and not any(key in names for key in ("pixel_values",)):
        choices.insert(0, choices.pop())
    if not choices:
        choices = [("its inputs", {})]
    for what, chosen in choices:
        if not set(chosen) <= set(names):
            chosen = {key: value for key, value in chosen.items() if key in names}
            if set(chosen) <= set(text) and what != "text":
                continue
        chosen = {**chosen, **needed(model, names, chosen)}
        for labels in labels_of(model, names, chosen):
            with_decoder = decoder_inputs(model, names, labels)
            for decoder in with_decoder:
                yield Call(model, (), {**copy.copy(chosen), **labels, **decoder, **plain(names)},
                           ", ".join([what, *labels, *decoder]))


def plain(names: Any) -> dict[str, Any]:
    return {"use_cache": False} if "use_cache" in names else {}


def needed(model: nn.Module, names: Any, chosen: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What `forward` asks for beside the main input, by name."""
    config = model.config
    made: dict[str, torch.Tensor] = {}
    for name, parameter in names.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or name in chosen:
            continue
        if name == "bbox":
            made[name] = zeros(BATCH, LENGTH, 4)
        elif name == "noise" and "pixel_values" in chosen:
            continue
        elif parameter.default is parameter.empty:
            value = required(name, config, chosen)
            if value is not None:
                made[name] = value
    return made


def required(name: str, config: Any, chosen: dict[str, torch.Tensor]) -> torch.Tensor | None:
    width = first(part(config, "hidden_size", "d_model"), 64)
    if name in ("attention_mask", "decoder_attention_mask", "padding_mask", "input_features_mask"):
        return torch.ones(BATCH, LENGTH, dtype=torch.long)
    if name in ("inputs", "inputs_embeds", "hidden_states", "encoder_hidden_states"):
        return floats(BATCH, LENGTH, width)
    if name in ("past_values", "past_observed_mask"):
        length = first(part(config, "context_length"), 32) + max(part(config, "lags_sequence") or [0])
        size = first(part(config, "input_size", "num_input_channels"), 1)
        if part(config, "lags_sequence") is None:
            return floats(BATCH, length, size)
        return floats(BATCH, length) if size == 1 else floats(BATCH, length, size)
    if name in ("past_time_features", "future_time_features"):
        length = first(part(config, "context_length"), 32) + max(part(config, "lags_sequence") or [0])
        length = length if name.startswith("past") else first(part(config, "prediction_length"), 32)
        return floats(BATCH, length, first(part(config, "num_time_features"), 0))
    if name.endswith("_ids") or name in ("labels", "input_ids"):
        return zeros(BATCH, LENGTH)
    if name.startswith("pixel_values"):
        return floats(BATCH, *shape_of_images(config))
    if name == "input_features":
        return sounds(config)[0][1]["input_features"]
    if name == "input_values":
        return floats(BATCH, 16000)
    return None


def labels_of(model: nn.Module, names: Any, chosen: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """With labels, if those of the task are known, and without."""
    kind = type(model).__name__
    if "labels" not in names:
        return [{}]
    if "start_positions" in names:
        return [{"start_positions": zeros(BATCH), "end_positions": zeros(BATCH)}, {}]
    ids = chosen.get("input_ids")
    if kind.endswith(("Classification", "Classifier")) and "Token" not in kind:
        labels = zeros(BATCH)
    elif kind.endswith(("SemanticSegmentation",)):
        labels = zeros(BATCH, *next(value for key, value in chosen.items() if "pixel" in key).shape[-2:])
    elif kind.endswith("ForCTC"):
        labels = zeros(BATCH, 4)
    elif kind.endswith(("LM", "LMHeadModel", "Generation", "ForPreTraining", "EncoderDecoderModel", "Seq2Seq")):
        labels = zeros(*(ids.shape if ids is not None else (BATCH, LENGTH)))
    else:
        return [{}]
    return [{"labels": labels}, {}]


def decoder_inputs(model: nn.Module, names: Any, labels: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    if "decoder_input_ids" in names:
        given = {"decoder_input_ids": zeros(BATCH, LENGTH)}
        return [{}, given] if labels else [given, {}]
    if "decoder_input_values" in names:
        return [{}, {"decoder_input_values": floats(BATCH, 16, first(part(model.config, "num_mel_bins"), 80))}]
    return [{}]


# ---- torchvision

# Operators that the package's library of the CPU defines. Where it was built for a GPU and does not load, they have no
# kernels, which nothing here needs.
TORCHVISION = [
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    *(f"{name}(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
      f"{more}) -> {result}"
      for name, more, result in (("roi_align", ", int sampling_ratio, bool aligned", "Tensor"),
                                 ("qroi_align", ", int sampling_ratio, bool aligned", "Tensor"),
                                 ("ps_roi_align", ", int sampling_ratio", "(Tensor, Tensor)"),
                                 ("roi_pool", "", "(Tensor, Tensor)"), ("ps_roi_pool", "", "(Tensor, Tensor)"))),
]


def declare_torchvision() -> None:
    """Makes torchvision importable where its library does not load."""
    if importlib.util.find_spec("torchvision") is None:
        return
    from torch._C import _dispatch_has_kernel_for_dispatch_key as known

    with contextlib.suppress(Exception):
        importlib.import_module("torchvision.extension")
    try:
        known("torchvision::nms", "Meta")
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for schema in TORCHVISION:
            library.define(schema)
        for name in ("_roi_align_backward", "_ps_roi_align_backward", "_roi_pool_backward", "_ps_roi_pool_backward"):
            library.define(f"{name}(Tensor grad) -> Tensor")
        _kept.append(library)


_kept: list[Any] = []  # a library's operators live as long as it


def of_torchvision() -> list[Network]:
    from torchvision import models

    families: dict[str, list[str]] = {}
    for name in models.list_models():
        module = models.get_model_builder(name).__module__.removeprefix("torchvision.models.")
        if not module.startswith("quantization"):
            families.setdefault(module, []).append(name)

    def calls(names: list[str]) -> Iterator[Call]:
        def build(name: str) -> nn.Module:
            needs = {"weights_backbone": None} if "detection" in models.get_model_builder(name).__module__ or \
                "segmentation" in models.get_model_builder(name).__module__ else {}
            return models.get_model(name, weights=None, **needs)

        name, model = smallest(names, build)
        module = models.get_model_builder(name).__module__
        size = 299 if "inception" in module else 224
        if "optical_flow" in module:
            yield Call(model, (floats(BATCH, 3, 128, 128), floats(BATCH, 3, 128, 128)), {"num_flow_updates": 2}, name)
        elif "video" in module:
            yield Call(model, (floats(BATCH, 3, 16, size, size),), {}, name)
        elif "detection" in module:
            image = [floats(3, 320, 320)]
            target = [{"boxes": torch.tensor([[10.0, 10.0, 100.0, 100.0]]), "labels": torch.tensor([1]),
                       "masks": torch.zeros(1, 320, 320, dtype=torch.uint8), "keypoints": floats(1, 17, 3)}]
            yield Call(model, (image, target), {}, name)
        else:
            yield Call(model, (floats(BATCH, 3, size, size),), {}, name)

    return [Network("torchvision", module, lambda names=names: calls(names)) for module, names in sorted(families.items())]


def smallest(names: list[str], build: Callable[[str], nn.Module], most: int = 24) -> tuple[str, nn.Module]:
    """The one with fewest modules."""
    best: tuple[str, nn.Module] | None = None
    count = 0
    errors = []
    for name in names[:most]:
        model = None
        for device in ("meta", "cpu"):
            try:
                with torch.device(device):
                    model = build(name)
                break
            except Exception as error:
                errors.append(error)
        modules = sum(1 for _ in model.modules()) if model is not None else 0
        if model is not None and (best is None or modules < count):
            best, count = (name, model), modules
    if best is None:
        raise errors[-1]
    return best[0], best[1].train()


# ---- timm

def of_timm() -> list[Network]:
    import timm

    def calls(module: str) -> Iterator[Call]:
        name, model = smallest(timm.list_models(module=module), lambda name: timm.create_model(name, pretrained=False))
        size = model.default_cfg.get("input_size", (3, 224, 224)) if isinstance(model.default_cfg, dict) else \
            getattr(model.default_cfg, "input_size", (3, 224, 224))
        size = (3, min(size[1], 256), min(size[2], 256)) if not model.default_cfg.get("fixed_input_size") else size
        yield Call(model, (floats(BATCH, *size),), {}, name)

    return [Network("timm", module, lambda module=module: calls(module))
            for module in timm.list_modules() if timm.list_models(module=module)]


# ---- torch_geometric

def of_torch_geometric() -> list[Network]:
    import torch_geometric.nn as geometric

    nodes, edges, width = 40, 120, 16
    ring = torch.stack([torch.arange(edges) % nodes, (torch.arange(edges) * 7 + 1) % nodes])
    x = floats(nodes, width)
    batch = torch.arange(nodes) // 10
    atoms, places = torch.ones(nodes, dtype=torch.long), torch.arange(nodes * 3.0).reshape(nodes, 3)
    models = geometric.models

    def encoder() -> nn.Module:
        return models.GCN(width, width, 2, width)

    def variational() -> nn.Module:
        class Encoder(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.mean, self.spread = geometric.GCNConv(width, width), geometric.GCNConv(width, width)

            def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> Any:
                return self.mean(x, edge_index), self.spread(x, edge_index)
        return Encoder()

    # What builds each, and the arguments of a call.
    known: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...], dict[str, Any]]] = {
        "MLP": (lambda: models.MLP([width, 32, width]), (x,), {}),
        **{name: (lambda name=name: getattr(models, name)(width, 32, 2, width), (x, ring), {})
           for name in ("GCN", "GraphSAGE", "GIN", "GAT", "EdgeCNN")},
        "PNA": (lambda: models.PNA(width, 32, 2, width, aggregators=["mean", "max", "std"], scalers=["identity"],
                                   deg=torch.ones(10, dtype=torch.long)), (x, ring), {}),
        "JumpingKnowledge": (lambda: models.JumpingKnowledge("lstm", width, 2), ([x, x],), {}),
        "HeteroJumpingKnowledge": (lambda: models.HeteroJumpingKnowledge(["a", "b"], "lstm", width, 2),
                                   ({"a": [x, x], "b": [x, x]},), {}),
        "MetaLayer": (lambda: models.MetaLayer(), (x, ring), {}),
        "Node2Vec": (lambda: models.Node2Vec(ring, width, 4, 2, num_nodes=nodes), (torch.arange(8),), {}),
        "MetaPath2Vec": (lambda: models.MetaPath2Vec({("a", "to", "a"): ring}, width, [("a", "to", "a")], 4, 2,
                                                     num_nodes_dict={"a": nodes}), ("a",), {}),
        "DeepGraphInfomax": (lambda: models.DeepGraphInfomax(
            width, encoder(), lambda z, *args, **kwargs: z.mean(0), lambda x, edge_index: (x.flip(0), edge_index)),
            (x, ring), {}),
        "InnerProductDecoder": (lambda: models.InnerProductDecoder(), (x, ring), {}),
        "GAE": (lambda: models.GAE(encoder()), (x, ring), {}),
        "VGAE": (lambda: models.VGAE(variational()), (x, ring), {}),
        "ARGA": (lambda: models.ARGA(encoder(), models.MLP([width, 16, 1])), (x, ring), {}),
        "ARGVA": (lambda: models.ARGVA(variational(), models.MLP([width, 16, 1])), (x, ring), {}),
        "SignedGCN": (lambda: models.SignedGCN(width, 32, 2), (x, ring, ring.flip(0)), {}),
        "RENet": (lambda: models.RENet(nodes, 4, width, 2), (), {}),
        "GraphUNet": (lambda: models.GraphUNet(width, 32, width, 2), (x, ring), {}),
        "SchNet": (lambda: models.SchNet(num_interactions=2), (atoms, places, batch), {}),
        "DimeNet": (lambda: models.DimeNet(32, 1, 2, 8, 7, 6), (atoms, places, batch), {}),
        "DimeNetPlusPlus": (lambda: models.DimeNetPlusPlus(32, 1, 2, 32, 16, 32, 7, 6), (atoms, places, batch), {}),
        "ViSNet": (lambda: models.ViSNet(num_layers=2), (atoms, places, batch), {}),
        "GNNFF": (lambda: models.GNNFF(32, 32, 2), (atoms, places, batch), {}),
        "DeepGCNLayer": (lambda: models.DeepGCNLayer(geometric.GENConv(width, width), nn.LayerNorm(width), nn.ReLU()),
                         (x, ring), {}),
        "AttentiveFP": (lambda: models.AttentiveFP(width, 32, 1, 4, 2, 2), (x, ring, floats(edges, 4), batch), {}),
        "RECT_L": (lambda: models.RECT_L(width, 32), (x, ring), {}),
        "LINKX": (lambda: models.LINKX(nodes, width, 32, width, 2), (x, ring), {}),
        "LightGCN": (lambda: models.LightGCN(nodes, width, 2), (ring,), {}),
        "MaskLabel": (lambda: models.MaskLabel(4, width), (x, zeros(nodes), torch.ones(nodes, dtype=torch.bool)), {}),
        "GroupAddRev": (lambda: models.GroupAddRev(geometric.GCNConv(width // 2, width // 2), num_groups=2), (x, ring), {}),
        "PMLP": (lambda: models.PMLP(width, 32, width, 2), (x, ring), {}),
        "NeuralFingerprint": (lambda: models.NeuralFingerprint(width, 32, width, 2), (x, ring, batch), {}),
        "SGFormer": (lambda: models.SGFormer(width, 32, width, gnn_num_layers=2), (x, ring, batch), {}),
        "Polynormer": (lambda: models.Polynormer(width, 32, width), (x, ring, batch), {}),
        "GPSE": (lambda: models.GPSE(dim_in=20, dim_out=51, conv_type="resgatedgcnconv", dim_inner=64, layers_mp=2,
                                     virtual_node=False, rand_type="NormalSE"), (), {}),
        "LPFormer": (lambda: models.LPFormer(width, 32), (), {}),
        "ARLinkPredictor": (lambda: models.ARLinkPredictor(width, 32), (x, ring), {}),
    }
    without = {"to_captum_model", "to_captum_input", "captum_output_to_dicts",  # functions
               "LabelPropagation", "CorrectAndSmooth", "GPSENodeEncoder", "TGNMemory"}  # no step of their own to train

    def calls(name: str) -> Iterator[Call]:
        if name not in known:
            raise ValueError("nothing here builds it")
        build, args, kwargs = known[name]
        model = build().train()
        if name in ("Node2Vec", "MetaPath2Vec", "LightGCN"):
            model.train()
        yield Call(model, args, kwargs, "graph")

    return [Network("torch_geometric", name, lambda name=name: calls(name))
            for name in models.__all__ if name not in without]
